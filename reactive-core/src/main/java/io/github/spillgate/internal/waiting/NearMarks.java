package io.github.spillgate.internal.waiting;

import io.github.spillgate.Limit;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import reactor.core.publisher.Mono;

/**
 * A store whose decisions say which limits they are {@linkplain Limit#near(int) near}, once.
 *
 * <p>The count of a quota knows whether one of its decisions has said so. For other limits, and during an outage, this
 * instance says it once for a key, and again only if the usage was below half of the mark, or if the key was not used
 * for one {@linkplain Limit#reach() reach} of the limit.
 */
public final class NearMarks extends ForwardingLimitStore {

    /** The number of keys that are known to be near; beyond it, a key may be reported again. */
    static final int MOST = 10_000;

    private final LongSupplier nanos;

    /** The keys that were reported, and until when each is known. The one that was used last is the last one. */
    private final Map<Object, Long> reported = new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Object, Long> eldest) {
            return size() > MOST;
        }
    };

    /**
     * Creates a decorator.
     *
     * @param store the store that decides
     */
    public NearMarks(LimitStore store) {
        this(store, Time::nanos);
    }

    NearMarks(LimitStore store, LongSupplier nanos) {
        super(store);
        this.nanos = nanos;
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        Mono<StoreDecision> made = super.take(request);
        return request.mode() == StoreRequest.Mode.TAKE && isAnyMarked(request.claims())
                ? made.map(this::withNear)
                : made;
    }

    private static boolean isAnyMarked(List<Claim> claims) {
        for (int i = 0; i < claims.size(); i++) {
            if (isMarked(claims.get(i).limit())) {
                return true;
            }
        }
        return false;
    }

    private static boolean isMarked(Limit limit) {
        return limit.nearMark() < Long.MAX_VALUE;
    }

    private StoreDecision withNear(StoreDecision made) {
        List<StoreUsage> near = made.usages().stream()
                .filter(usage -> isMarked(usage.limit()) && isReportedBy(made, usage))
                .toList();
        return near.isEmpty() ? made : made.withNear(near);
    }

    private boolean isReportedBy(StoreDecision made, StoreUsage usage) {
        boolean isFirst = isFirst(usage);
        StoreUsage.Windows period = usage.inStore().windows();
        if (made.fallbacks() == 0 && usage.limit() instanceof Limit.Quota && period != null) {
            return period.isNear();
        }
        return isFirst;
    }

    private synchronized boolean isFirst(StoreUsage usage) {
        Object key = usage.claim().handle();
        long mark = usage.limit().nearMark();
        long now = nanos.getAsLong();
        Long until = reported.get(key);
        boolean isKnown = until != null && until - now > 0;
        if (usage.used() < mark / 2) {
            reported.remove(key);
        } else if (isKnown || usage.used() >= mark) {
            reported.put(key, now + usage.limit().reach().toNanos());
        }
        return !isKnown && usage.used() >= mark;
    }
}
