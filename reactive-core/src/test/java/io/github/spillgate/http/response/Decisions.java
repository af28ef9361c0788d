package io.github.spillgate.http.response;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.StoreForTests;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import reactor.core.publisher.Mono;

/** Decisions of a store with a given usage. */
public final class Decisions {

    /** The time of all decisions: 400 ms after a full second. */
    static final long AT = 1_790_000_000_400L;

    private Decisions() {}

    /**
     * The usage of one limit by one key.
     *
     * @param used the number of permits in use after the decision
     * @param violated whether the limit has denied
     * @param millis the time until the request fits after a denial, or else until nothing is in use
     */
    record Found(String key, Limit limit, long used, boolean violated, long millis) {

        static Found used(String key, Limit limit, long used, long wholeAfterMillis) {
            return new Found(key, limit, used, false, wholeAfterMillis);
        }

        static Found violated(String key, Limit limit, long used, long fitsAfterMillis) {
            return new Found(key, limit, used, true, fitsAfterMillis);
        }

        private StoreUsage usage(Reply reply, Claim claim) {
            // A violated limit is whole later than the request fits; that time must not be reported.
            long wholeAt = AT + millis + (violated ? 1_000_000 : 0);
            return StoreUsage.of(reply, claim, used, violated, violated ? AT + millis : AT, wholeAt);
        }
    }

    static Decision of(Found... found) {
        return of(AT, found);
    }

    /** Returns the decision of a setting, made without a store. */
    static Decision bySetting(boolean allowed) {
        Reply reply = new Reply(Source.FALLBACK, AT);
        return allowed
                ? StoreDecision.ofPeek(reply, List.of())
                : StoreDecision.denied(reply, AT + 1_000, List.of(), List.of());
    }

    static Decision of(long at, Found... found) {
        LimitStore store = StoreForTests.taking(LocalStore.bounded(16), claims -> {
            Reply reply = new Reply(Source.OTHER, at);
            List<StoreUsage> usages = IntStream.range(0, claims.size())
                    .mapToObj(i -> found[i].usage(reply, claims.get(i)))
                    .toList();
            return Mono.just(StoreDecision.ofTake(reply, usages));
        });
        return ask(
                store,
                List.of(found).stream()
                        .map(one -> Charge.of(one.key, one.limit))
                        .toArray(Charge[]::new));
    }

    /** Returns a denial by the limiter itself: the cost is above the limit. */
    static Decision neverFits(Limit limit) {
        return ask(LocalStore.bounded(16), Charge.of("user:42", limit).permits(limit.permits() + 1));
    }

    private static Decision ask(LimitStore store, Charge... charges) {
        try (RateLimiter limiter = RateLimiter.builder("test").store(store).build()) {
            return Objects.requireNonNull(limiter.tryAcquire(charges).block());
        }
    }

    /** Returns the fields that are written for the decisions, in order. */
    static Map<String, String> written(RateLimitHeaders headers, Decision... decisions) {
        Map<String, String> written = new LinkedHashMap<>();
        headers.write(List.of(decisions), (name, value) -> {
            if (written.put(name, value) != null) {
                throw new AssertionError(name + " is written twice");
            }
        });
        return written;
    }
}
