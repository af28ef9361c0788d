package io.github.spillgate.vertx;

import static io.github.spillgate.vertx.HandlerFixture.done;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.Context;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.ThreadingModel;
import io.vertx.core.Vertx;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The limiter as futures, for code of Vert.x that is not HTTP. */
class FutureRateLimiterTest {

    private final Vertx vertx = Vertx.vertx();
    private final RedisClient redis = RedisClient.create(RedisForTests.first().uri());
    private final RedisStore store = RedisStore.create(redis);
    private final RateLimiter limiter = RateLimiter.builder("test-" + UUID.randomUUID())
            .store(store)
            .deadline(Duration.ofSeconds(5))
            .limit(Limit.perMinute(3))
            .build();
    private final FutureRateLimiter limits = FutureRateLimiter.of(vertx, limiter);

    @AfterEach
    void close() throws Exception {
        done(vertx.close());
        limiter.close();
        store.close();
        redis.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void permitsAreHeldWhileAFutureIsPending() throws Exception {
        Charge charge = Charge.of("a", Limit.concurrent(1));
        Promise<String> work = Promise.promise();
        Queue<Context> contexts = new ConcurrentLinkedQueue<>();
        Promise<Void> started = Promise.promise();
        Context context = vertx.getOrCreateContext();
        Promise<Future<String>> result = Promise.promise();
        context.runOnContext(ignored -> result.complete(limits.whileHolding(charge, () -> {
            contexts.add(Vertx.currentContext());
            started.complete();
            return work.future();
        })));
        done(started.future());
        assertThat(contexts).containsExactly(context);
        assertThatThrownBy(() -> done(limits.whileHolding(charge, () -> Future.succeededFuture("other"))))
                .hasCauseInstanceOf(RateLimitedException.class);
        work.complete("done");
        assertThat(done(done(result.future()))).isEqualTo("done");
        untilFree(charge);

        assertThatThrownBy(() -> done(limits.whileHolding(charge, () -> Future.failedFuture("x"))))
                .hasRootCauseMessage("x");
        assertThatThrownBy(() -> done(limits.whileHolding(charge, () -> {
                    throw new IllegalStateException("thrown");
                })))
                .hasRootCauseMessage("thrown");
        untilFree(charge);
        Decision taken = done(limits.tryAcquire(charge));
        done(limits.release(taken));
        untilFree(charge);
        limits.keepHolding(done(limits.tryAcquire(charge)), expired -> {}).dispose();
        untilFree(charge);
    }

    /** No result would follow, and the permit would be renewed for the longest hold. */
    @Test
    void aPermitIsReleasedIfTheWorkReturnsNoFutureOrThrowsAnError() throws Exception {
        Charge charge = Charge.of("a", Limit.concurrent(1));
        assertThatThrownBy(() -> done(limits.whileHolding(charge, () -> null)))
                .hasRootCauseInstanceOf(NullPointerException.class)
                .hasMessageContaining("the work returned null: expected a future");
        untilFree(charge);
        assertThatThrownBy(() -> done(limits.whileHolding(charge, () -> {
                    throw new NoClassDefFoundError("missing");
                })))
                .hasRootCauseInstanceOf(NoClassDefFoundError.class);
        untilFree(charge);
    }

    /** A result does not wait for the release. */
    private void untilFree(Charge charge) {
        await().untilAsserted(
                        () -> assertThat(done(limits.peek(charge)).remaining()).isEqualTo(1));
    }

    @Test
    void everyMethodDelegatesToTheLimiter() throws Exception {
        assertThat(done(limits.tryAcquire("a")).remaining()).isEqualTo(2);
        Decision two = done(limits.tryAcquire(Charge.of("a", 2)));
        assertThat(two.remaining()).isZero();
        assertThat(done(limits.tryAcquire("a")).isAllowed()).isFalse();
        done(limits.refund(two));
        assertThat(done(limits.peek("a")).remaining()).isEqualTo(2);
        assertThat(done(limits.acquire("a", Duration.ofMillis(100))).isAllowed())
                .isTrue();
        done(limits.reset("a"));
        assertThat(done(limits.peek(Charge.of("a"))).remaining()).isEqualTo(3);
        assertThat(done(limits.tryAcquire(Charge.of("a", 3), Charge.of("b"))).isAllowed())
                .isTrue();
        assertThat(done(limits.acquire(List.of(Charge.of("a")), Duration.ofMillis(1)))
                        .isAllowed())
                .isFalse();
        done(limits.refund(Charge.of("a", 1)));
        done(limits.refund(Charge.of("a")));
        assertThat(done(limits.peek(Charge.of("a"))).remaining()).isEqualTo(2);
        Decision both = done(limits.tryAcquire(Charge.of("a"), Charge.of("b")));
        done(limits.refund(both, usage -> usage.key().equals("a")));
        assertThat(done(limits.peek("a")).remaining()).isEqualTo(2);
        assertThat(done(limits.peek("b")).remaining()).isEqualTo(1);
        assertThat(done(limits.acquire(List.of(Charge.of("a", 2)), Duration.ofMillis(1)))
                        .isAllowed())
                .isTrue();
        assertThat(done(limits.acquire(List.of(Charge.of("a"), Charge.of("b")), Duration.ofMillis(1)))
                        .isAllowed())
                .isFalse();
        done(limits.reset(Charge.of("a"), Charge.of("b")));
        assertThat(done(limits.peek("b")).remaining()).isEqualTo(3);
        done(limits.settle(done(limits.tryAcquire("a")), 2));
        done(limits.settle(done(limits.tryAcquire(Charge.of("b", 2))), usage -> usage.cost() - 1));
        assertThat(done(limits.peek("a")).remaining()).isEqualTo(1);
        assertThat(done(limits.peek("b")).remaining()).isEqualTo(2);
    }

    @Test
    void aKeyIsBannedPausedAndPardoned() throws Exception {
        Limit ban = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));
        Charge charge = Charge.of("a", Limit.perMinute(9), ban, Limit.pausable());
        done(limits.ban(charge, Duration.ofMinutes(1)));
        assertThat(done(limits.tryAcquire(charge)).violated()).containsExactly(ban);
        done(limits.pardon(charge));
        done(limits.pause(charge, Duration.ofMinutes(1)));
        assertThat(done(limits.tryAcquire(charge)).violated()).containsExactly(Limit.pausable());
        done(limits.pardon(charge));
        assertThat(done(limits.tryAcquire(charge)).isAllowed()).isTrue();
        // The limits of the limiter itself have none.
        for (Future<Void> refused :
                List.of(limits.ban("a", Duration.ofMinutes(1)), limits.pause("a", Duration.ofMinutes(1)))) {
            assertThatThrownBy(() -> done(refused)).hasRootCauseInstanceOf(IllegalStateException.class);
        }
        done(limits.pardon("a"));
    }

    @Test
    void aFutureCompletesOnTheContextOfTheCaller() throws Exception {
        assertCompletesOn(ThreadingModel.EVENT_LOOP, "vert.x-eventloop");
        assertCompletesOn(ThreadingModel.WORKER, "vert.x-worker");
    }

    private void assertCompletesOn(ThreadingModel threading, String thread) throws Exception {
        Queue<Context> contexts = new ConcurrentLinkedQueue<>();
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Promise<Void> answered = Promise.promise();
        done(vertx.deployVerticle(
                new AbstractVerticle() {
                    @Override
                    public void start() {
                        contexts.add(context);
                        limits.tryAcquire("b").onComplete(decision -> {
                            contexts.add(Vertx.currentContext());
                            threads.add(Thread.currentThread().getName());
                            answered.complete();
                        });
                    }
                },
                new DeploymentOptions().setThreadingModel(threading)));
        done(answered.future());

        assertThat(contexts).hasSize(2).allMatch(contexts.peek()::equals);
        assertThat(threads).hasSize(1).allMatch(name -> name.startsWith(thread));
    }

    @Test
    void anErrorIsAFailedFuture() throws Exception {
        RedisClient nowhere = RedisClient.create("redis://127.0.0.1:1");
        RedisStore unreachable = RedisStore.create(nowhere);
        try (RateLimiter without = RateLimiter.builder("nowhere")
                .store(unreachable)
                .fallback(Fallback.error())
                .limit(Limit.perMinute(3))
                .build()) {
            Future<Decision> decision = FutureRateLimiter.of(vertx, without).tryAcquire("a");
            assertThatThrownBy(() -> done(decision))
                    .isInstanceOf(ExecutionException.class)
                    .hasCauseInstanceOf(LimitStoreException.class);
        } finally {
            unreachable.close();
            nowhere.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }

    @Test
    void invalidArgumentsAreRejectedOnTheCall() {
        Function<String, Future<Decision>> ask = limits::tryAcquire;
        assertThatThrownBy(() -> ask.apply("")).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> FutureRateLimiter.of(null, limiter)).hasMessageContaining("vertx is null");
        assertThatThrownBy(() -> FutureRateLimiter.of(vertx, null)).hasMessageContaining("limiter is null");
    }
}
