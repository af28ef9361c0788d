package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.Unprotected;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** Gives the requests that other limiters had, at their times, to one exact limiter. */
final class ExactReplay {

    private final Limit limit;
    private final List<Long> arrivals = new ArrayList<>();

    ExactReplay(Limit limit) {
        this.limit = limit;
    }

    /** Notes a request for a permit, in any order. */
    void arrived(long millis) {
        arrivals.add(millis);
    }

    /** Returns the number of permits that an exact limiter grants. */
    long granted() {
        AtomicLong clock = new AtomicLong();
        RateLimiter exact = RateLimiter.builder("exact")
                .store(new Unprotected(LocalStore.bounded(16, () -> Instant.ofEpochMilli(clock.get()))))
                .limit(limit)
                .build();
        AtomicLong granted = new AtomicLong();
        arrivals.stream().sorted().forEach(at -> {
            clock.set(at);
            exact.tryAcquire("key").subscribe(decision -> granted.addAndGet(decision.isAllowed() ? 1 : 0));
        });
        return granted.get();
    }
}
