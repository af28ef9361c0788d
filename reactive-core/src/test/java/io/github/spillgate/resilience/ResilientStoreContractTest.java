package io.github.spillgate.resilience;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.Settlement;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import reactor.core.publisher.Mono;

/** Whoever decides, the store or the fallback: a resilient store keeps what every store keeps. */
class ResilientStoreContractTest {

    private static RedisURI gone;

    @Nested
    class AroundARedisThatAnswers extends LimitStoreContract {

        private final RedisClient client =
                RedisClient.create(RedisForTests.first().uri());
        private final ResilientStore store = ResilientStore.builder(RedisStore.create(client))
                .deadline(Duration.ofSeconds(30))
                .build();

        @AfterEach
        void shutdown() {
            store.close();
            client.shutdown();
        }

        @Override
        protected LimitStore store() {
            return store;
        }
    }

    @Nested
    class AroundARedisThatIsNotThere extends LimitStoreContract {

        private final RedisClient client = RedisClient.create(gone);
        private final ResilientStore store = ResilientStore.builder(RedisStore.create(client))
                .fallback(LocalStore.bounded(10_000))
                .build();

        @AfterEach
        void shutdown() {
            store.close();
            client.shutdown();
        }

        @Override
        protected LimitStore store() {
            return store;
        }
    }

    @Nested
    class AroundAStoreThatHangs extends LimitStoreContract {

        private final ResilientStore store = ResilientStore.builder(new Hanging())
                .fallback(LocalStore.bounded(10_000))
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
    }

    /** A port that was a Redis's a moment ago; nobody else is given it soon. */
    @BeforeAll
    static void aPortWhereNobodyListens() {
        try (RedisForTests redis = RedisForTests.startOwn()) {
            gone = redis.uri();
        }
    }

    private static final class Hanging implements LimitStore {

        @Override
        public Mono<Decision> take(List<Claim> claims) {
            return Mono.never();
        }

        @Override
        public Mono<Decision> peek(List<Claim> claims) {
            return Mono.never();
        }

        @Override
        public Mono<Void> refund(Decision decision) {
            return Mono.never();
        }

        /** This one is refused. While it is in doubt, nothing is given back here either, or it might be given back twice. */
        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return Mono.error(new LimitStoreUnavailableException("busy: expected it to be asked again later", null));
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return Mono.never();
        }

        @Override
        public Mono<Decision> settle(List<Settlement> settlements) {
            return Mono.never();
        }
    }
}
