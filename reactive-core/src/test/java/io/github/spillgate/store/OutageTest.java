package io.github.spillgate.store;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** A limiter on the store, with its breaker and its fallback. */
class OutageTest {

    private final Map<String, Stored> rows = new ConcurrentHashMap<>();
    private final HeldMapStore store = new HeldMapStore(rows, InstantSource.system());

    @ParameterizedTest
    @ValueSource(strings = {"20/5h", "20/5h counter", "20/5h burst=20", "20 concurrent"})
    void grantsOfAnOutageAreChargedAfterIt(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .deadline(Duration.ofSeconds(10))
                .limit(limit)
                .build();
        assertThat(take(limiter).source()).isEqualTo(Source.OTHER);
        store.onRead((keys, read) -> Mono.error(new LimitStoreUnavailableException("down", null)));
        for (int i = 0; i < 3; i++) {
            assertThat(take(limiter).source()).isEqualTo(Source.LOCAL);
        }
        store.onRead((keys, read) -> read);
        RateLimiter direct = RateLimiter.builder("api")
                .store(new Unprotected(new MapStore(rows, InstantSource.system())))
                .limit(limit)
                .build();
        await().atMost(Duration.ofMinutes(1))
                .until(() ->
                        requireNonNull(direct.peek("a").block()).limits().get(0).used() == 4);
        await().until(() -> limiter.state().toReconcile() == 0);
        limiter.close();
    }

    private static Decision take(RateLimiter limiter) {
        Decision decision = requireNonNull(limiter.tryAcquire("a").block());
        assertThat(decision.isAllowed()).isTrue();
        return decision;
    }
}
