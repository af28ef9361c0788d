package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.internal.Time;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import reactor.core.publisher.Mono;

/** A local fallback of another store, and limiters on it. */
abstract class LocalFallbackFixture {

    static final long WINDOW = 60_000;

    final ManualClock clock = new ManualClock();
    final LocalFallback store = Fallback.local(1_000, clock);
    final ManualWay way = new ManualWay();
    final List<List<Claim>> seen = new ArrayList<>();
    final LimitStore watched = new Unprotected(store) {
        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            seen.add(claims);
            return super.take(claims);
        }

        @Override
        public Mono<StoreDecision> peek(List<Claim> claims) {
            seen.add(claims);
            return super.peek(claims);
        }
    };
    final RateLimiter limiter = limiter(Limit.perMinute(10));

    @BeforeEach
    void bindToAStore() {
        store.bindTo(new Unprotected(LocalStore.bounded(16)), way);
    }

    RateLimiter limiter(Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder("api").store(watched);
        IntStream.range(0, limits.length).forEach(i -> builder.limit(limits[i].named("limit-" + i)));
        return builder.build();
    }

    /** Confirms a grant of the primary store for an unused key. */
    StoreDecision taken(RateLimiter limiter, String key, long permits) {
        StoreDecision taken = reply(claim(limiter, key).withPermits(permits), permits, clock.millis(), WINDOW);
        store.confirm(taken, Time.nanos());
        return taken;
    }

    /** Confirms this usage of the primary store, which expires after this time. */
    boolean remember(RateLimiter limiter, String key, long used, long millis) {
        return remember(claim(limiter, key).withPermits(1), used, millis);
    }

    /** Reports this usage of the primary store without a request that it allows. */
    void report(RateLimiter limiter, String key, long used, long millis) {
        long at = clock.millis();
        store.confirm(
                StoreDecision.ofPeek(
                        reply(at),
                        List.of(StoreUsage.of(reply(at), claim(limiter, key), used, false, at, at + millis))),
                Time.nanos());
    }

    boolean remember(Claim claim, long used, long millis) {
        return store.confirm(reply(claim, used, clock.millis(), millis), Time.nanos());
    }

    /** Returns a grant of the primary store, and this usage, which expires after this time. */
    static StoreDecision reply(Claim claim, long used, long at, long millis) {
        return StoreDecision.ofTake(reply(at), List.of(StoreUsage.of(reply(at), claim, used, false, at, at + millis)));
    }

    static Reply reply(long at) {
        return new Reply(Source.OTHER, at);
    }

    /** Asserts that this many permits of a grant are refunded in the primary store, and the others here. */
    void assertRefundedInThePrimary(StoreDecision grant, long... permits) {
        assertThat(refundGrants(store, grant).stream().mapToLong(LocalFallbackFixture::permits))
                .containsExactly(LongStream.of(permits).boxed().toArray(Long[]::new));
    }

    /** Refunds a grant, and returns what must be refunded in the primary store. */
    static List<RefundCharged> refundGrants(LocalFallback store, StoreDecision grant) {
        return Refund.of(grant).stream()
                .map(store::refundGrant)
                .flatMap(Stream::ofNullable)
                .toList();
    }

    /** Subtracts a decision of the primary store, which refunds it. */
    static void refundConfirmed(LocalFallback store, StoreDecision taken) {
        Refund.of(taken).forEach(one -> store.refundConfirmed(one, one.claim().permits()));
    }

    /** Reports a reconciliation as charged, and returns how many permits must be refunded in the primary store. */
    long charged(Reconciliation reconciliation) {
        return charged(reconciliation, reconciliation.permits());
    }

    long charged(Reconciliation reconciliation, long usedThen) {
        long at = clock.millis();
        StoreUsage used =
                StoreUsage.of(new Reply(Source.OTHER, at, 1), reconciliation.claim(), usedThen, false, at, at + WINDOW);
        RefundCharged refund = way.charged(reconciliation, CorrectedForTests.of(used));
        return refund == null ? 0 : permits(refund);
    }

    static long permits(RefundCharged charged) {
        return charged.claim().permits();
    }

    static StoreDecision denied(Claim claim, long at, long until) {
        return StoreDecision.ofTake(reply(at), List.of(StoreUsage.of(reply(at), claim, 10, true, until, until)));
    }

    static long fitsAfter(RateLimiter limiter, String key, long cost) {
        return now(limiter.peek(Charge.of(key, cost)))
                .retryAfter()
                .orElseThrow()
                .toMillis();
    }

    static long wholeAfter(RateLimiter limiter, String key) {
        StoreDecision decision = now(limiter.peek(key));
        return decision.limits().get(0).wholeAt().toEpochMilli() - decision.at().toEpochMilli();
    }

    Claim claim(RateLimiter limiter, String key) {
        now(limiter.peek(key));
        return seen.get(seen.size() - 1).get(0);
    }

    static StoreDecision now(Mono<? extends Decision> decision) {
        return (StoreDecision) requireNonNull(decision.block());
    }
}
