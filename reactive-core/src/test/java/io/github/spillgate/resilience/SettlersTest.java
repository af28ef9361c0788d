package io.github.spillgate.resilience;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Settlement;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** What settles the parts of a store ends together. */
class SettlersTest {

    private static final int ROUNDS = 30;
    private static final int KEYS = 200;
    private static final Duration LONG = Duration.ofSeconds(30);

    /** Whoever asks again once a second until it is charged would do so for ever, after its limiter has been closed. */
    @Test
    void nobodySettlesAnyMoreWhenAllHaveEndedAlsoIfSomebodyCameToBeMeanwhile() throws InterruptedException {
        List<Parts> stores = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            Parts store = new Parts();
            stores.add(store);
            LocalStore local = LocalStore.bounded(10_000);
            local.standInFor(store);
            Settlers settlers =
                    new Settlers(store, local, new Gates(store, local, 1_000, UnaryOperator.identity()), new Doubts());
            List<Decision> granted = new ArrayList<>();
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(new Unprotected(local))
                    .limit(Limit.perHour(10))
                    .build();
            for (int key = 0; key < KEYS; key++) {
                granted.add(limiter.tryAcquire("key-" + key).block(LONG));
            }
            assertThat(local.state().toSettle()).isEqualTo(KEYS);
            CountDownLatch halfway = new CountDownLatch(KEYS / 2);
            Thread waking = new Thread(() -> granted.forEach(decision -> {
                settlers.wake(decision);
                halfway.countDown();
            }));
            waking.start();
            halfway.await();
            Mono<Void> end = settlers.end();
            waking.join();
            end.block(LONG);
            store.hasEnded = true;
        }
        await().during(Duration.ofMillis(1_500))
                .atMost(LONG)
                .untilAsserted(() -> assertThat(stores)
                        .allSatisfy(store -> assertThat(store.askedTooLate).hasValue(0)));
    }

    /** A store of as many parts as there are counts, of which none can be reached. */
    private static final class Parts implements LimitStore {

        private final AtomicInteger askedTooLate = new AtomicInteger();
        private volatile boolean hasEnded;

        private <T> Mono<T> gone() {
            return Mono.error(() -> {
                if (hasEnded) {
                    askedTooLate.incrementAndGet();
                }
                return new LimitStoreUnavailableException("gone", null);
            });
        }

        @Override
        public String part(List<Claim> claims) {
            return claims.get(0).identity();
        }

        @Override
        public Mono<Void> prepare() {
            return gone();
        }

        @Override
        public Mono<Decision> take(List<Claim> claims) {
            return gone();
        }

        @Override
        public Mono<Decision> peek(List<Claim> claims) {
            return gone();
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return gone();
        }

        @Override
        public Mono<Void> refund(Decision decision) {
            return gone();
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return gone();
        }

        @Override
        public Mono<Decision> settle(List<Settlement> settlements) {
            return gone();
        }

        @Override
        public StoreState state() {
            return StoreState.of(Source.REDIS);
        }
    }
}
