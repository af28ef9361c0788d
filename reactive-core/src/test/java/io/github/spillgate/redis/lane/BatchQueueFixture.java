package io.github.spillgate.redis.lane;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.Keyspace;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.event.command.CommandListener;
import io.lettuce.core.event.command.CommandStartedEvent;
import io.lettuce.core.protocol.CommandType;
import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import reactor.core.publisher.Mono;

/** A Redis that a test can pause, stores on it, and callers that keep what they are answered. */
abstract class BatchQueueFixture {

    static final Limit LIMIT = Limit.perHour(1_000);
    static final Duration LONG = Duration.ofSeconds(30);

    final RedisForTests redis = RedisForTests.startOwn();
    final List<RedisStore> stores = new ArrayList<>();

    /** The number of scripts that were sent, whether Redis has replied or not. */
    final AtomicInteger sent = new AtomicInteger();

    RedisClient client;
    Keyspace keyspace;
    private volatile @Nullable EventLoop loop;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        client.addListener(new CommandListener() {
            @Override
            public void commandStarted(CommandStartedEvent event) {
                EventLoop current = LoopLanes.currentLoop();
                loop = current == null ? loop : current;
                if (event.getCommand().getType() == CommandType.EVALSHA) {
                    sent.incrementAndGet();
                }
            }
        });
        keyspace = new Keyspace(client);
    }

    @AfterEach
    void shutdown() {
        stores.forEach(RedisStore::close);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    /** A queue to which no decision is added. */
    private static BatchQueue idleQueue(OpenConnection connection) {
        return new BatchQueue(
                connection,
                batch -> Mono.never(),
                new CountKeys("idle"),
                BatchBounds.DEFAULT,
                AnswerDelivery.onLoop(),
                time -> false);
    }

    /** A connection without a script and without decisions. */
    static Lane lane(Supplier<StatefulRedisConnection<byte[], byte[]>> connector, LongSupplier nanoTime) {
        return new Lane(
                connector,
                commands -> commands.eval("return ''", ScriptOutputType.VALUE, new byte[0][]),
                nanoTime,
                OpenConnection.LONGEST_SILENCE,
                BatchQueueFixture::idleQueue);
    }

    /** A connected store with loaded scripts and, by default, at most two batches in flight. */
    RedisStore store(UnaryOperator<RedisStore.Builder> how) {
        RedisStore store = how.apply(RedisStore.builder(client)
                        .namespace(keyspace.namespace())
                        .batching(128, 2, 100_000))
                .build();
        stores.add(store);
        store.prepare("").retry(3).block(LONG);
        return store;
    }

    static RateLimiter limiter(RedisStore store, Limit... limits) {
        return Unprotected.limiter(store, limits);
    }

    List<Heard> whileRedisIsPaused(Supplier<List<Heard>> asking) {
        redis.pause();
        try {
            List<Heard> heard = asking.get();
            awaitQueued();
            return heard;
        } finally {
            redis.resume();
        }
    }

    /** Fills the batches in flight with one decision each, requests the others, and returns all. */
    List<Heard> whileBatchesAreInFlight(int batches, int times, IntFunction<Mono<Decision>> question) {
        return whileRedisIsPaused(() -> {
            List<Heard> heard = askOneByOne(batches, question);
            heard.addAll(ask(times - batches, i -> question.apply(batches + i)));
            return heard;
        });
    }

    /** Requests decisions, each after the command of the one before was sent. */
    List<Heard> askOneByOne(int times, IntFunction<Mono<Decision>> question) {
        List<Heard> heard = new ArrayList<>(times);
        for (int i = 0; i < times; i++) {
            int before = sent.get();
            heard.add(new Heard(question.apply(i)));
            await().until(() -> sent.get() > before);
        }
        return heard;
    }

    /** The event loop of the newest command. */
    EventLoop loop() {
        return Objects.requireNonNull(loop, "no command was sent");
    }

    /** Waits until the event loop of the newest command has done all that was requested before. */
    void awaitQueued() {
        EventLoop newest = loop;
        if (newest != null) {
            // The first task may be before the one that sends the queue, which the event loop adds.
            newest.submit(() -> {}).syncUninterruptibly();
            newest.submit(() -> {}).syncUninterruptibly();
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
    record Heard(CompletableFuture<Decision> outcome) {

        Heard(Mono<Decision> question) {
            this(question.toFuture());
        }

        void cancel() {
            outcome.cancel(true);
        }

        Decision decision() {
            return result().block(LONG);
        }

        Throwable error() {
            return result().then(Mono.<Throwable>empty())
                    .onErrorResume(Mono::just)
                    .block(LONG);
        }

        /**
         * Returns the outcome. The timeout is the caller's, because a future's own timer would be cancelled on a thread
         * that must not block.
         */
        private Mono<Decision> result() {
            return Mono.fromFuture(outcome, true);
        }
    }
}
