package io.github.spillgate.redis;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.event.command.CommandListener;
import io.lettuce.core.event.command.CommandStartedEvent;
import io.lettuce.core.protocol.CommandType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** A Redis that a test can pause, stores on it, and callers that keep what they are answered. */
abstract class CoalescerFixture {

    static final Limit LIMIT = Limit.perHour(1_000);
    static final Duration LONG = Duration.ofSeconds(30);

    final RedisForTests redis = RedisForTests.startOwn();
    final List<RedisStore> stores = new ArrayList<>();
    RedisClient client;
    Keyspace keyspace;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        keyspace = new Keyspace(client);
    }

    @AfterEach
    void shutdown() {
        stores.forEach(RedisStore::close);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    /** A connected store with loaded scripts and, by default, at most two batches in flight. */
    RedisStore store(UnaryOperator<RedisStore.Builder> how) {
        RedisStore store = how.apply(RedisStore.builder(client)
                        .namespace(keyspace.namespace())
                        .coalescing(128, 2, 100_000))
                .coalescing(bounds -> bounds.withPace(0))
                .build();
        stores.add(store);
        store.prepare().block(LONG);
        return store;
    }

    /** A store of which many commands may be under way, as soon as it is time. */
    RedisStore pacedStore(int together, Duration pace) {
        RedisStore store = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .deliverOn(Schedulers.immediate())
                .coalescing(together, 16, 100_000)
                .coalescing(bounds -> bounds.withPace(pace.toNanos()))
                .build();
        stores.add(store);
        store.prepare().block(LONG);
        return store;
    }

    /** How many scripts are sent on connections that are opened from now on, whether Redis answers or not. */
    AtomicInteger countSent() {
        AtomicInteger sent = new AtomicInteger();
        client.addListener(new CommandListener() {
            @Override
            public void commandStarted(CommandStartedEvent event) {
                if (event.getCommand().getType() == CommandType.EVALSHA) {
                    sent.incrementAndGet();
                }
            }
        });
        return sent;
    }

    static RateLimiter limiter(RedisStore store, Limit... limits) {
        RateLimiter.Builder builder = RateLimiter.builder("api").store(new Unprotected(store));
        Stream.of(limits).forEach(builder::limit);
        return builder.build();
    }

    List<Heard> whileRedisIsPaused(Supplier<List<Heard>> asking) {
        redis.pause();
        try {
            return asking.get();
        } finally {
            redis.resume();
        }
    }

    static List<Heard> ask(int times, IntFunction<Mono<Decision>> question) {
        List<Heard> heard = new ArrayList<>(times);
        for (int i = 0; i < times; i++) {
            heard.add(new Heard(question.apply(i)));
        }
        return heard;
    }

    static List<Decision> decisions(List<Heard> heard) {
        return heard.stream().map(Heard::decision).toList();
    }

    /** A subscriber that keeps its decision or its error. */
    static final class Heard extends BaseSubscriber<Decision> {

        final CompletableFuture<Decision> outcome = new CompletableFuture<>();

        Heard(Mono<Decision> question) {
            question.subscribe(this);
        }

        @Override
        protected void hookOnNext(Decision decision) {
            outcome.complete(decision);
        }

        @Override
        protected void hookOnError(Throwable error) {
            outcome.completeExceptionally(error);
        }

        Decision decision() {
            return outcome().block(LONG);
        }

        Throwable error() {
            return outcome()
                    .then(Mono.<Throwable>empty())
                    .onErrorResume(Mono::just)
                    .block(LONG);
        }

        /**
         * Returns the outcome. The timeout is the caller's, because a future's own timer would be cancelled on a thread
         * that must not block.
         */
        private Mono<Decision> outcome() {
            return Mono.fromFuture(outcome, true);
        }
    }
}
