package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import reactor.core.publisher.Mono;

/**
 * A store with decisions that say which limits they are {@linkplain Limit#near(int) near}, once.
 *
 * <p>The count of a quota knows whether one of its decisions has said so. For other limits, and during an outage, this
 * limiter says it once for a key, and again only if the usage was below half of the mark, or if the key was not used
 * for one {@linkplain LimitKind#reach reach} of the limit. Only allowed decisions do.
 */
public final class NearMarks extends ForwardingLimitStore {
    // Design notes.
    //
    // Order. Replies arrive in any order, so a usage below half of the mark counts only if its reply is newer than all
    // that were seen of the key. Replies with one time and stamp are those of one script, in any order, too.
    //
    // Shares. A local store shows the permits of other processes as used. Of those it may grant itself, the same part
    // is the mark.
    //
    // Dropped decisions. A grant that no caller gets is refunded, and the next decision at the mark reports in its
    // place.

    /** The number of keys that are known to be near; beyond it, a key may be reported again. */
    static final int MOST = 10_000;

    private final LongSupplier nanos;

    /** The keys that were reported. The one that was used last is the last one. */
    private final Map<Object, Reported> reported = new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Object, Reported> eldest) {
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

    /** Returns whether a decision on any of these claims may have to say so. */
    public static boolean isAnyMarked(List<Claim> claims) {
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

    /** Notes that no caller gets this decision. */
    synchronized void dropped(StoreDecision made) {
        for (Decision.Usage usage : made.near()) {
            Object key = ((StoreUsage) usage).claim().handle();
            reported.computeIfPresent(key, (same, last) -> last.dropped());
        }
    }

    private synchronized boolean isReportedBy(StoreDecision made, StoreUsage usage) {
        Object key = usage.claim().handle();
        StoreUsage counted = made.source() == Source.LOCAL ? usage.inStore() : usage;
        long ofOthers = usage.used() - counted.used();
        long mark = markOf(usage.limit(), ofOthers);
        long before = made.isCharged() ? counted.used() - usage.cost() : counted.used();
        long now = nanos.getAsLong();
        Reported last = reported.get(key);
        // A denial by another hash slot drops the report of a quota: its permits are refunded.
        boolean wasDropped =
                (last != null && last.isDropped) || (!made.isAllowed() && isFirst(made, usage, ofOthers, false));
        boolean isKnown = last != null && last.until > now && (2 * before >= mark || !last.isBefore(counted.reply()));
        boolean isAtMark = made.isAllowed() && counted.used() >= mark;
        boolean isReported = isAtMark && (wasDropped || isFirst(made, usage, ofOthers, !isKnown));
        if (isKnown || isAtMark || wasDropped) {
            Reply newest = last == null || last.isBefore(counted.reply()) ? counted.reply() : last.newest;
            long until = now + TimeUnit.MILLISECONDS.toNanos(LimitKind.reach(usage.limit()));
            reported.put(key, new Reported(until, newest, wasDropped && !isReported));
        } else {
            reported.remove(key);
        }
        return isReported;
    }

    /** Returns whether the count of a quota says that this decision has reached the mark, or else what is given. */
    private static boolean isFirst(StoreDecision made, StoreUsage usage, long ofOthers, boolean isFirstHere) {
        StoreUsage.Windows period = usage.inStore().windows();
        if (made.fallbacks() > 0 || ofOthers > 0 || period == null || !(usage.limit() instanceof Limit.Quota)) {
            return isFirstHere;
        }
        return period.isNear();
    }

    private static long markOf(Limit limit, long ofOthers) {
        double part = (double) (limit.capacity() - ofOthers) / limit.capacity();
        return ofOthers == 0 ? limit.nearMark() : (long) Math.ceil(limit.nearMark() * part);
    }

    /**
     * A key that was reported.
     *
     * @param until until when it is known
     * @param newest the newest reply that was seen of it
     * @param isDropped whether no caller got the decision that reported it
     */
    private record Reported(long until, Reply newest, boolean isDropped) {

        boolean isBefore(Reply reply) {
            return newest.at() < reply.at() || (newest.at() == reply.at() && newest.stamp() < reply.stamp());
        }

        Reported dropped() {
            return new Reported(until, newest, true);
        }
    }
}
