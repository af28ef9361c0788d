package io.github.spillgate.postgres;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** A limiter on a server that stops, with its breaker and its fallback. */
class PostgresOutageTest {

    private static final PostgresForTests POSTGRES = PostgresForTests.startOwn();
    private static final Limit LIMIT = Limit.of(1_000, Duration.ofHours(5));
    private static final Duration LONG = Duration.ofSeconds(60);

    private final String namespace = "outage-" + System.nanoTime();
    private final PostgresStore store = store();
    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(store)
            .limit(LIMIT)
            .deadline(Duration.ofMillis(500))
            .build();
    private long granted;

    enum Fault {
        STOP,
        KILL,
        PAUSE
    }

    private PostgresStore store() {
        return PostgresStore.builder(POSTGRES.factory()).namespace(namespace).build();
    }

    @ParameterizedTest
    @EnumSource
    void callersGetDecisionsDuringAnOutageAndTheGrantsAreChargedAfterIt(Fault fault) {
        awaitPostgres();
        switch (fault) {
            case STOP -> POSTGRES.stop();
            case KILL -> POSTGRES.kill();
            case PAUSE -> POSTGRES.pause();
        }
        for (int i = 0; i < 20; i++) {
            assertThat(take()).isEqualTo(Source.LOCAL);
        }
        if (fault == Fault.PAUSE) {
            POSTGRES.resume();
        } else {
            POSTGRES.restart();
        }
        awaitPostgres();
        // A request that was sent before the fault may have been executed, too.
        await().atMost(LONG).untilAsserted(() -> assertThat(used()).isBetween(granted, granted + 3));
        awaitPostgres();
    }

    /** Connections end while decisions are made on them. */
    @Test
    void endedConnectionsAreNoErrorsForCallers() {
        awaitPostgres();
        Flux.range(0, 400)
                .flatMap(
                        i -> limiter.tryAcquire("a").doOnNext(decision -> {
                            if (i % 100 == 50) {
                                Mono.fromRunnable(() -> POSTGRES.execute(
                                                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <>"
                                                        + " pg_backend_pid() AND backend_type = 'client backend'"))
                                        .subscribeOn(Schedulers.boundedElastic())
                                        .onErrorComplete()
                                        .subscribe();
                            }
                        }),
                        4)
                .doOnNext(decision -> {
                    assertThat(decision.isAllowed()).isTrue();
                    granted++;
                })
                .blockLast(LONG);
        awaitPostgres();
        await().atMost(LONG).untilAsserted(() -> assertThat(used()).isGreaterThanOrEqualTo(granted));
    }

    /** Waits until PostgreSQL decides, and has all grants. */
    private void awaitPostgres() {
        await().atMost(LONG).until(() -> take() == Source.POSTGRES);
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
    }

    private Source take() {
        Decision decision =
                requireNonNull(limiter.tryAcquire("a").block(Duration.ofSeconds(10)), "a decision by its deadline");
        assertThat(decision.isAllowed()).isTrue();
        granted++;
        return decision.source();
    }

    private long used() {
        PostgresStore direct = store();
        try {
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(new Unprotected(direct))
                    .limit(LIMIT)
                    .build();
            return requireNonNull(limiter.peek("a").block()).limits().get(0).used();
        } finally {
            direct.closeLater().block();
        }
    }

    @AfterEach
    void close() {
        limiter.close();
        store.closeLater().block();
    }

    @AfterAll
    static void stop() {
        POSTGRES.close();
    }
}
