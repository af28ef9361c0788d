package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.scheduler.Schedulers;

/** A connection that neither works nor breaks is replaced by the next command. */
class LaneSilenceTest extends LaneFixture {

    @Test
    void aStalledConnectionAttemptIsReplaced() {
        redis.pause();
        CompletableFuture<String> first = ping();
        pass(5);
        CompletableFuture<String> stillTheFirst = ping();
        nanos.incrementAndGet();
        CompletableFuture<String> second = ping();
        for (CompletableFuture<String> given : List.of(first, stillTheFirst)) {
            assertThat(failure(given)).is(kind(Kind.UNREACHABLE)).hasMessageContaining("no connection within 5 s");
        }
        assertThat(second).isNotDone();
        redis.resume();
        assertThat(second).succeedsWithin(LONG).isEqualTo("PONG");
        await().until(() -> connections() == 1);
    }

    @Test
    void theNumberOfAttemptsAtATimeIsBounded() {
        redis.pause();
        List<CompletableFuture<String>> abandoned = new ArrayList<>();
        for (int i = 1; i < Lane.MOST_ATTEMPTS; i++) {
            abandoned.add(ping());
            pass(6);
        }
        CompletableFuture<String> last = ping();
        pass(6);
        CompletableFuture<String> stillTheLast = ping();
        pass(6);
        CompletableFuture<String> stillTheLastToo = ping();
        assertThat(abandoned).allSatisfy(one -> assertThat(failure(one)).is(kind(Kind.UNREACHABLE)));
        redis.resume();
        for (CompletableFuture<String> answered : List.of(last, stillTheLast, stillTheLastToo)) {
            assertThat(answered).succeedsWithin(LONG).isEqualTo("PONG");
        }
        await().until(() -> connections() == 1);
    }

    @Test
    void aReplacedConnectionStillDeliversReplies() {
        try (VirtualTime time = new VirtualTime()) {
            assertThat(ping()).succeedsWithin(LONG).isEqualTo("PONG");
            pass(60);
            redis.pause();
            CompletableFuture<String> first = ping();
            pass(2);
            CompletableFuture<String> stillOnTheFirst = ping();
            nanos.incrementAndGet();
            CompletableFuture<String> onTheSecond = ping();
            redis.resume();
            for (CompletableFuture<String> answered : List.of(first, stillOnTheFirst, onTheSecond)) {
                assertThat(answered).succeedsWithin(LONG).isEqualTo("PONG");
            }
            awaitOneConnection(time);
            OpenConnection.unobserved(lane.beginClosing());
            await().until(() -> connections() == 0);
        }
    }

    /** As behind a proxy that has lost a connection: Redis answers on another one, so this one will never answer. */
    @Test
    void aConnectionThatStaysSilentIsClosedOnceAnotherOneIsOpenAndItsCommandsFail() {
        try (VirtualTime time = new VirtualTime();
                CommandProxy proxy = new CommandProxy(redis.uri().getPort());
                RedisClient through = RedisClient.create(RedisURI.create("127.0.0.1", proxy.port()))) {
            Lane lane = BatchQueueFixture.lane(() -> through.connect(ByteArrayCodec.INSTANCE), nanos::get);
            assertThat(lane.<String>send(commands -> commands.ping()).toFuture())
                    .succeedsWithin(LONG)
                    .isEqualTo("PONG");
            proxy.silenceOpen();
            CompletableFuture<String> silent =
                    lane.<String>send(commands -> commands.ping()).toFuture();
            await().until(proxy::hasDroppedReply);
            pass(3);
            assertThat(lane.<String>send(commands -> commands.ping()).toFuture())
                    .succeedsWithin(LONG)
                    .isEqualTo("PONG");
            passWhileNot(time, silent::isDone);
            assertThat(silent).isCompletedExceptionally();
            assertThat(Errors.translate(failure(silent))).is(kind(Kind.UNANSWERED));
            OpenConnection.unobserved(lane.beginClosing());
        }
    }

    /** What waits for its answers would else be in doubt for a minute. */
    @Test
    void aConnectionPendingRetirementIsClosedWithTheOthers() {
        assertThat(ping()).succeedsWithin(LONG).isEqualTo("PONG");
        redis.pause();
        CompletableFuture<String> silent = ping();
        pass(3);
        AtomicBoolean isBusy = new AtomicBoolean(true);
        AtomicLong turns = new AtomicLong();
        for (int i = 0; i < Schedulers.DEFAULT_POOL_SIZE; i++) {
            Schedulers.parallel().schedule(() -> {
                while (isBusy.get()) {
                    turns.incrementAndGet();
                }
            });
        }
        CompletableFuture<String> onTheNext;
        try {
            // Another one is opened, and this one is retired soon after, on another thread.
            onTheNext = ping();
            OpenConnection.unobserved(lane.beginClosing());
        } finally {
            isBusy.set(false);
        }
        assertThat(failure(silent)).isNotNull();
        assertThat(failure(onTheNext)).isNotNull();
        redis.resume();
        await().until(() -> connections() == 0);
    }

    /**
     * To Reactor such an error is fatal: unless it is caught where it is thrown, it is lost on the connection's thread.
     */
    @Test
    void aCommandThatMissesAMethodFailsWithItsName() {
        CompletableFuture<String> missing = lane.<String>send(commands -> {
                    throw new NoSuchMethodError("io.netty.Missing");
                })
                .toFuture();
        assertThat(failure(missing)).is(kind(Kind.UNREACHABLE)).hasMessageContaining("io.netty.Missing");
    }

    @Test
    void connectionsThatWereReplacedAreClosed() {
        try (VirtualTime time = new VirtualTime()) {
            for (int i = 0; i < 3; i++) {
                assertThat(ping()).succeedsWithin(LONG).isEqualTo("PONG");
                redis.pause();
                CompletableFuture<String> silent = ping();
                pass(3);
                CompletableFuture<String> onTheNext = ping();
                redis.resume();
                assertThat(silent).succeedsWithin(LONG).isEqualTo("PONG");
                assertThat(onTheNext).succeedsWithin(LONG).isEqualTo("PONG");
                // No timer runs out for this.
                await().until(() -> {
                    time.pass(Duration.ZERO);
                    return connections() <= 2;
                });
            }
            awaitOneConnection(time);
        }
    }

    private void cancelPingInFlight() {
        Disposable sent = lane.send(commands -> commands.ping()).subscribe();
        OpenConnection open = lane.opened().block(LONG);
        await().until(() -> open.isAnswering(Long.MAX_VALUE));
        sent.dispose();
    }

    @Test
    void theReplyToACancelledCommandIsStillAwaited() {
        long first = id();
        redis.pause();
        cancelPingInFlight();
        pass(3);
        CompletableFuture<String> next = ping();
        redis.resume();
        assertThat(next).succeedsWithin(LONG).isEqualTo("PONG");
        assertThat(id()).isNotEqualTo(first);
    }

    @Test
    void aReplyToACancelledCommandIsASignOfLife() {
        long first = id();
        redis.pause();
        cancelPingInFlight();
        CompletableFuture<String> last = ping();
        redis.resume();
        assertThat(last).succeedsWithin(LONG).isEqualTo("PONG");
        pass(3);
        assertThat(id()).isEqualTo(first);
    }

    @Test
    void silenceCountsOnlyWhileACommandIsInFlight() {
        long first = id();
        for (int i = 0; i < 3; i++) {
            pass(60);
            assertThat(id()).isEqualTo(first);
        }
    }

    @Test
    void aReplyShowsThatRedisWasNotSilentWhenItsCommandWasSent() {
        assertThat(ping()).succeedsWithin(LONG).isEqualTo("PONG");
        OpenConnection open = lane.opened().block(LONG);
        pass(1);
        long sentAt = nanos.get();
        redis.pause();
        CompletableFuture<String> slow = ping();
        await().until(() -> open.isAnswering(Long.MAX_VALUE));
        pass(1);
        redis.resume();
        assertThat(slow).succeedsWithin(LONG).isEqualTo("PONG");
        assertThat(open.hasAnsweredSince(sentAt - 1)).isTrue();
        assertThat(open.hasAnsweredSince(sentAt)).isFalse();
    }

    @Test
    void aConnectionIsStalledIfOnlyAnotherOneHasReplies() {
        assertThat(ping()).succeedsWithin(LONG).isEqualTo("PONG");
        OpenConnection open = lane.opened().block(LONG);
        long second = Duration.ofSeconds(1).toNanos();
        pass(1);
        long sentAt = nanos.get();
        redis.pause();
        CompletableFuture<String> silent = ping();
        await().until(() -> open.isAnswering(Long.MAX_VALUE));
        pass(1);
        assertThat(open.isSilentAlone(second + 1, since -> true)).isFalse();
        assertThat(open.isSilentAlone(second, since -> false)).isFalse();
        assertThat(open.isStalled()).isFalse();
        assertThat(open.isSilentAlone(second, since -> since == sentAt)).isTrue();
        assertThat(open.isStalled()).isTrue();
        redis.resume();
        assertThat(silent).succeedsWithin(LONG).isEqualTo("PONG");
        assertThat(open.isStalled()).isFalse();
        assertThat(open.isSilentAlone(second, since -> true)).isFalse();
    }

    private CompletableFuture<String> ping() {
        return lane.<String>send(commands -> commands.ping()).toFuture();
    }

    private void awaitOneConnection(VirtualTime time) {
        passWhileNot(time, () -> connections() == 1);
    }

    /**
     * Lets the timers run out by which a replaced connection is closed soon, and not the one that closes it after a
     * minute.
     */
    private static void passWhileNot(VirtualTime time, Callable<Boolean> condition) {
        AtomicLong seconds = new AtomicLong();
        await().atMost(LONG).until(() -> {
            if (seconds.incrementAndGet() <= 10) {
                time.pass(Duration.ofSeconds(1));
            }
            return condition.call();
        });
    }

    private void pass(long seconds) {
        pass(Duration.ofSeconds(seconds));
    }

    private static Throwable failure(CompletableFuture<?> future) {
        Throwable thrown = catchThrowable(() -> future.get(LONG.toSeconds(), TimeUnit.SECONDS));
        return thrown instanceof ExecutionException ? thrown.getCause() : thrown;
    }
}
