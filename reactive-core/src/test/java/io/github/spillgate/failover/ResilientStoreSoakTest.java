package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Source;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.api.sync.RedisCommands;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Redis fails again and again under the load of 200 callers, and nothing leaks: no thread, no memory, no operation in
 * flight.
 *
 * <p>{@code -Dspillgate.soak=1000} runs a thousand rounds instead of a hundred.
 */
class ResilientStoreSoakTest {

    private static final int ROUNDS = Integer.getInteger("spillgate.soak", 100);
    private static final int FEW_ROUNDS = 5;
    private static final long MEGABYTE = 1 << 20;
    private static final int A_FEW = 1;
    private static final List<String> FOREIGN_THREADS = List.of(
            "boundedElastic-",
            "lettuce-",
            "bad-network",
            "process reaper",
            "output of redis-server",
            "Attach Listener");

    private final RedisForTests redis = RedisForTests.startOwn();
    private final BadNetwork network = new BadNetwork(redis.uri().getPort());
    private final Chaos chaos = new Chaos(CallerThreads.Kind.PARALLEL, redis, network).withoutLedger();

    private final List<Runnable> failures =
            List.of(this::kill, this::hang, this::slowDown, this::flushScripts, this::loseReplies);

    @AfterEach
    void close() {
        chaos.close();
    }

    @Test
    @Thorough
    void aFewFailuresLeakNothing() {
        assertNothingLeaks(FEW_ROUNDS);
    }

    @Test
    @Proof
    @Timeout(value = 4, unit = TimeUnit.HOURS)
    void manyFailuresLeakNothing() {
        assertNothingLeaks(ROUNDS);
    }

    private void assertNothingLeaks(int rounds) {
        chaos.begin();
        kill();
        chaos.end();
        List<String> threads = threads();
        long used = usedAfterCollection();

        chaos.begin();
        for (int round = 0; round < rounds; round++) {
            failures.get(round % failures.size()).run();
        }
        chaos.end().assertLatencies();

        Chaos.report("threads before and after", threads + ", " + threads());
        Chaos.report("megabytes before and after", used / MEGABYTE + ", " + usedAfterCollection() / MEGABYTE);
        ResilientStore store = chaos.store();
        await().atMost(Chaos.PATIENCE).untilAsserted(() -> {
            assertThat(chaos.callsInFlight()).as("calls in flight").isZero();
            assertThat(store.failover().deadlines().size()).as("deadlines").isZero();
            assertThat(network.connections()).as("connections").isEqualTo(1);
            assertThat(threads()).as("threads").hasSizeLessThanOrEqualTo(threads.size() + A_FEW);
        });
        // A late reply is removed with the next one, or after a minute.
        assertThat(store.failover().lateReplies().size()).as("late answers").isLessThan(20_000);
        assertThat(usedAfterCollection()).as("bytes used").isLessThan(used + 32 * MEGABYTE);
    }

    private void kill() {
        chaos.kill();
        chaos.awaitOutage(Duration.ZERO);
        chaos.restart();
        awaitRecovery();
    }

    private void hang() {
        redis.pause();
        chaos.awaitOutage(Duration.ZERO);
        redis.resume();
        awaitRecovery();
    }

    private void slowDown() {
        network.delayReplies(() -> 150);
        chaos.awaitOutage(Duration.ZERO);
        network.delayReplies(() -> 0);
        awaitRecovery();
    }

    private void flushScripts() {
        for (int i = 0; i < 10; i++) {
            chaos.command(RedisCommands::scriptFlush);
            chaos.awaitMoreFrom(Source.REDIS, 100);
        }
    }

    private void loseReplies() {
        network.loseNextReply();
        await().until(network::hasLostReply);
        awaitRecovery();
    }

    private void awaitRecovery() {
        chaos.awaitRecovery();
    }

    /** Returns our threads, without those of growing pools, of the network and of the server process. */
    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(name -> FOREIGN_THREADS.stream().noneMatch(name::startsWith))
                .sorted()
                .toList();
    }

    private static long usedAfterCollection() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
