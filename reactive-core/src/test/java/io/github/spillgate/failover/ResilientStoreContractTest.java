package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.WithoutDeadline;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import reactor.core.publisher.Mono;

/** A resilient store keeps the contract of every store, whether Redis decides or the fallback does. */
class ResilientStoreContractTest {

    private static RedisClient answering;
    private static RedisClient refused;

    @BeforeAll
    static void createClients() {
        answering = RedisClient.create(RedisForTests.first().uri());
        // The port was a Redis's a moment ago, so it is not assigned again soon.
        try (RedisForTests redis = RedisForTests.startOwn()) {
            refused = RedisClient.create(redis.uri());
        }
    }

    @AfterAll
    static void shutdown() {
        answering.shutdown();
        refused.shutdown();
    }

    @Nested
    class WithRedisAvailable extends LimitStoreContract {

        private final RedisStore redis = RedisStore.create(answering);
        private final ResilientStore store =
                ResilientStore.builder(redis).deadline(Duration.ofSeconds(30)).build();

        @AfterEach
        void close() {
            store.close();
            redis.close();
        }

        @Override
        protected LimitStore store() {
            return store;
        }
    }

    @Nested
    class WithRedisUnreachable extends LimitStoreContract {

        private final ManualClock clock = new ManualClock();
        private final RedisStore redis = RedisStore.create(refused);
        private final ResilientStore store = ResilientStore.builder(redis)
                .fallback(Fallback.local(10_000, clock))
                .build();

        @AfterEach
        void close() {
            store.close();
            redis.close();
        }

        @Override
        protected LimitStore store() {
            return store;
        }

        @Override
        protected void tick() {
            clock.advanceMillis(1);
        }

        @Override
        protected boolean hasExchanges() {
            return false;
        }
    }

    @Nested
    class WithAHangingStore extends LimitStoreContract {

        private final ManualClock clock = new ManualClock();
        private final ResilientStore store = ResilientStore.builder(new Hanging())
                .fallback(Fallback.local(10_000, clock))
                .deadline(Duration.ofMillis(1))
                .build();

        @AfterEach
        void close() {
            store.close();
        }

        @Override
        protected LimitStore store() {
            return store;
        }

        @Override
        protected void tick() {
            clock.advanceMillis(1);
        }
    }

    private static final class Hanging extends WithoutDeadline {

        Hanging() {
            super(LocalStore.bounded(16));
        }

        @Override
        protected <T> Mono<T> around(Mono<T> operation) {
            return Mono.never();
        }

        /** Fails at once: while it is unknown whether the store made a refund, the fallback must not make it too. */
        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return corrections.get(0) instanceof RefundOldest
                    ? Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "busy: expected it to be asked again later"))
                    : super.correct(corrections);
        }
    }
}
