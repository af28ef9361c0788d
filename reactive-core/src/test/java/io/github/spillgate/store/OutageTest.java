package io.github.spillgate.store;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.store.CompareAndWriteStore.Change;
import io.github.spillgate.store.CompareAndWriteStore.Rows;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
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
        Mono<Rows> down = Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "down"));
        store.onRead((keys, read) -> down).onWrite((changes, write) -> down);
        for (int i = 0; i < 3; i++) {
            assertThat(take(limiter).source()).isEqualTo(Source.LOCAL);
        }
        store.onRead((keys, read) -> read).onWrite((changes, write) -> write);
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

    /** Another program has locked a row: its key has to wait, but no other one. */
    @Test
    void aGrantThatCannotBeChargedHoldsUpNoOther() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .deadline(Duration.ofSeconds(10))
                .limit(Limit.of(20, Duration.ofHours(5)))
                .build();
        Mono<Rows> down = Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "down"));
        store.onRead((keys, read) -> down).onWrite((changes, write) -> down);
        for (String key : List.of("a", "locked", "b")) {
            assertThat(take(limiter, key).source()).isEqualTo(Source.LOCAL);
        }
        MapStore map = new MapStore(rows, InstantSource.system());
        store.onWrite((changes, write) -> {
            Map<Boolean, List<Change>> isLocked = changes.stream()
                    .collect(Collectors.partitioningBy(
                            change -> change.writes().get(0).key().contains("locked")));
            List<String> locked = isLocked.get(true).stream()
                    .flatMap(change -> change.writes().stream())
                    .map(Write::key)
                    .toList();
            return map.write(isLocked.get(false)).then(map.read(locked));
        });
        store.onRead((keys, read) -> read);
        await().untilAsserted(() -> assertThat(limiter.state().toReconcile()).isEqualTo(1));
        store.onWrite((changes, write) -> write);
        await().untilAsserted(() -> assertThat(limiter.state().toReconcile()).isZero());
        limiter.close();
    }

    private static Decision take(RateLimiter limiter) {
        return take(limiter, "a");
    }

    private static Decision take(RateLimiter limiter, String key) {
        Decision decision = requireNonNull(limiter.tryAcquire(key).block());
        assertThat(decision.isAllowed()).isTrue();
        return decision;
    }
}
