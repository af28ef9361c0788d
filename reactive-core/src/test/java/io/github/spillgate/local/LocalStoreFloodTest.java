package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.failover.LocalFallback;
import io.github.spillgate.failover.LocalFallbacks;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.List;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/**
 * Ten times as many new keys come to a store as it remembers: 100,000 here, and a million in
 * {@link LocalStoreLargeFloodTest}.
 */
class LocalStoreFloodTest {

    private static final Limit LIMIT = Limit.perHour(10);
    private static final Limit SMALL = Limit.perHour(1).named("small");

    private final int bound = bound();
    private final int flood = 10 * bound;
    private final int aSecond = flood / 4;

    /**
     * So many keys later a key comes again, twice: often enough for a cache to think that it is worth more than others.
     */
    private final int again = flood * 3 / 100;

    private final ManualClock clock = new ManualClock();
    private final LocalStore store = LocalStore.bounded(bound, clock);
    private final RateLimiter limiter = limiter(store, LIMIT);
    private final RateLimiter small = limiter(store, SMALL);

    int bound() {
        return 10_000;
    }

    @Test
    void aFloodOfNewKeysDoesNotEvictADeniedKey() {
        exhaust("denied");
        flood(
                flood,
                i -> acquire("fresh-" + i),
                second -> assertThat(acquire("denied").isAllowed())
                        .as("after %d s", second)
                        .isFalse());
        assertThat(remembered()).isBetween(bound / 2L, bound + 1L);
    }

    @Test
    void aFloodOfDeniedKeysDoesNotEvictADeniedKey() {
        exhaust("denied");
        flood(
                flood / 4,
                i -> {
                    small.tryAcquire("fresh-" + i).block();
                    assertThat(small.tryAcquire("fresh-" + i).block().isAllowed())
                            .isFalse();
                },
                second -> assertThat(acquire("denied").isAllowed())
                        .as("after %d s", second)
                        .isFalse());
        assertThat(remembered()).isLessThanOrEqualTo(bound + bound / 4);
        assertThat(store.counts().denied().size()).isEqualTo(bound / 4);
    }

    /** They are in use, and not denied: each is used twice for each time that the cache is filled. */
    @Test
    void aFloodOfNewKeysDoesNotEvictKeysInUse() {
        List<String> users = users(100);
        users.forEach(user -> take(user, 5));
        for (int i = 0; i < 100; i++) {
            users.forEach(this::remaining);
        }
        int pause = bound / users.size() / 2;
        for (int i = 0; i < flood; i++) {
            acquire("fresh-" + i);
            if (i % pause == 0) {
                remaining(users.get(i / pause % users.size()));
            }
        }
        assertThat(users).allMatch(user -> remaining(user) == 5);
    }

    /** They come when the cache is full of others, and are on probation first. */
    @Test
    void aFloodOfNewKeysDoesNotEvictNewKeysInUse() {
        fill();
        List<String> users = users(10);
        users.forEach(user -> take(user, 5));
        for (int i = 0; i < bound / 50; i++) {
            acquire("later-" + i);
            users.forEach(this::remaining);
        }
        assertThat(users).allMatch(user -> remaining(user) == 5);
    }

    @Test
    void aFloodOfNewKeysDoesNotEvictKeysThatWereUsedMoreOften() {
        fill();
        List<String> users = users(10);
        for (int i = 0; i < 5; i++) {
            users.forEach(this::acquire);
        }
        for (int i = 0; i < bound; i++) {
            acquire("later-" + i);
        }
        assertThat(users).allMatch(user -> remaining(user) == 5);
    }

    /** All keys are in use, and one of them more than the others. */
    @Test
    void keysInUseDoNotEvictAKeyThatIsUsedMoreOften() {
        take("shared", 5);
        List<String> users = users(bound - 1);
        users.forEach(this::acquire);
        for (int i = 0; i < 15; i++) {
            for (String user : users) {
                remaining(user);
                remaining("shared");
            }
        }
        for (int i = 0; i < bound / 200; i++) {
            acquire("later-" + i);
            for (int j = 0; j < 14; j++) {
                remaining("later-" + i);
                remaining("shared");
            }
        }
        assertThat(remaining("shared")).isEqualTo(5);
    }

    private static List<String> users(int number) {
        return IntStream.range(0, number).mapToObj(i -> "user-" + i).toList();
    }

    private void fill() {
        for (int i = 0; i < 3 * bound; i++) {
            acquire("fresh-" + i);
        }
    }

    /** The other store has denied the key, and then does not answer any more. */
    @Test
    void aFloodDoesNotEvictAKeyDeniedByThePrimary() {
        Breakable other = new Breakable(LocalStore.bounded(bound, clock));
        LocalFallback fallback = Fallback.local(bound, clock);
        try (ResilientStore resilient = ResilientStore.builder(other)
                .fallback(fallback)
                .deadline(Duration.ofSeconds(30))
                .cacheDenials(Duration.ZERO)
                .build()) {
            RateLimiter protectedLimiter = limiter(resilient, LIMIT);
            protectedLimiter.tryAcquire(Charge.of("denied", LIMIT.permits())).block();
            Decision denied = protectedLimiter.tryAcquire("denied").block();
            assertThat(denied.isAllowed()).isFalse();
            other.broken = true;
            flood(
                    flood / 4,
                    i -> protectedLimiter.tryAcquire("fresh-" + i).block(),
                    second -> assertThat(protectedLimiter
                                    .tryAcquire("denied")
                                    .block()
                                    .isAllowed())
                            .as("after %d s", second)
                            .isFalse());
            assertThat(protectedLimiter.tryAcquire("denied").block().source()).isEqualTo(Source.LOCAL);
            assertThat(LocalFallbacks.counts(fallback)).isLessThanOrEqualTo(bound + bound / 4);
        }
    }

    @Test
    void anExpiredDenialMakesPlaceForTheNext() {
        for (int i = 0; i < bound / 4; i++) {
            exhaustSmall("early-" + i);
        }
        assertThat(store.counts().denied().size()).isEqualTo(bound / 4);
        clock.advance(SMALL.window());
        exhaust("denied");
        flood(
                flood / 4,
                i -> acquire("fresh-" + i),
                second -> assertThat(acquire("denied").isAllowed())
                        .as("after %d s", second)
                        .isFalse());
        assertThat(store.counts().denied().size()).isLessThanOrEqualTo(bound / 4);
    }

    /** Sends so many requests a second that a key used once a second is soon the least recently and least used. */
    private void flood(int keys, IntConsumer fresh, IntConsumer onceASecond) {
        for (int i = 0; i < keys; i++) {
            fresh.accept(i);
            if (again <= i && i < aSecond) {
                fresh.accept(i - again);
                fresh.accept(i - again);
            }
            if (i % aSecond == aSecond - 1) {
                clock.advance(Duration.ofSeconds(1));
                onceASecond.accept(i / aSecond);
            }
        }
    }

    private void take(String key, long permits) {
        assertThat(limiter.tryAcquire(Charge.of(key, permits)).block().isAllowed())
                .isTrue();
    }

    private void exhaust(String key) {
        take(key, LIMIT.permits());
        assertThat(acquire(key).isAllowed()).isFalse();
    }

    private void exhaustSmall(String key) {
        small.tryAcquire(key).block();
        assertThat(small.tryAcquire(key).block().isAllowed()).isFalse();
    }

    private Decision acquire(String key) {
        return limiter.tryAcquire(key).block();
    }

    private long remaining(String key) {
        return limiter.peek(key).block().remaining();
    }

    private long remembered() {
        store.counts().cache().cleanUp();
        return store.counts().cache().estimatedSize() + store.counts().denied().size();
    }

    private static RateLimiter limiter(LimitStore store, Limit limit) {
        return RateLimiter.builder("flood").store(store).limit(limit).build();
    }

    /** A store that stops answering. */
    private static final class Breakable extends WithoutDeadline {

        private volatile boolean broken;

        Breakable(LimitStore store) {
            super(store);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return Mono.defer(() ->
                    broken ? Mono.error(new LimitStoreException(Kind.UNREACHABLE, "it has gone")) : super.take(claims));
        }
    }
}
