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
    private static final List<String> OF_OTHERS = List.of(
            "boundedElastic-",
            "lettuce-",
            "bad-network",
            "process reaper",
            "output of redis-server",
            "Attach Listener");

    private final RedisForTests redis = RedisForTests.startOwn();
    private final BadNetwork network = new BadNetwork(redis.uri().getPort());
    private final Chaos chaos = new Chaos(redis, network).withoutLedger();

    private final List<Runnable> failures =
            List.of(this::kill, this::hang, this::slowDown, this::flushScripts, this::loseReplies);

    @AfterEach
    void close() {
        chaos.close();
    }

    @Test
    @Thorough
    void nothingIsLeftOfAFewFailures() {
        assertNothingIsLeft(FEW_ROUNDS);
    }

    @Test
    @Proof
    @Timeout(value = 4, unit = TimeUnit.HOURS)
    void nothingIsLeftOfManyFailures() {
        assertNothingIsLeft(ROUNDS);
    }

    private void assertNothingIsLeft(int rounds) {
        chaos.begin();
        kill();
        chaos.end();
        List<String> threads = threads();
        long used = usedAfterCollection();

        chaos.begin();
        for (int round = 0; round < rounds; round++) {
            failures.get(round % failures.size()).run();
        }
        chaos.end().assertAllWereAnsweredInTime();

        Chaos.tell("threads before and after", threads + ", " + threads());
        Chaos.tell("megabytes before and after", used / MEGABYTE + ", " + usedAfterCollection() / MEGABYTE);
        ResilientStore store = chaos.store();
        await().atMost(Chaos.PATIENCE).untilAsserted(() -> {
            assertThat(chaos.openQuestions()).as("open questions").isZero();
            assertThat(store.failover().timers().deadline().size())
                    .as("deadlines")
                    .isZero();
            assertThat(network.connections()).as("connections").isEqualTo(1);
            assertThat(threads()).as("threads").hasSizeLessThanOrEqualTo(threads.size() + A_FEW);
        });
        // Those who have been answered late leave when the next one comes, or after a minute.
        assertThat(store.failover().timers().late().size()).as("late answers").isLessThan(20_000);
        assertThat(usedAfterCollection()).as("bytes used").isLessThan(used + 32 * MEGABYTE);
    }

    private void kill() {
        chaos.kill();
        chaos.awaitOutage(Duration.ZERO);
        chaos.restart();
        awaitReturn();
    }

    private void hang() {
        redis.pause();
        chaos.awaitOutage(Duration.ZERO);
        redis.resume();
        awaitReturn();
    }

    private void slowDown() {
        network.delayReplies(() -> 150);
        chaos.awaitOutage(Duration.ZERO);
        network.delayReplies(() -> 0);
        awaitReturn();
    }

    private void flushScripts() {
        for (int i = 0; i < 10; i++) {
            chaos.command(RedisCommands::scriptFlush);
            chaos.awaitMoreFrom(Source.REDIS, 100);
        }
    }

    private void loseReplies() {
        network.loseTheNextReply();
        await().until(network::hasLostIt);
        awaitReturn();
    }

    private void awaitReturn() {
        chaos.repaired();
        chaos.awaitRedisDecides();
    }

    /** Ours; not those of pools that fill up as they are used, of the network and of the server's process. */
    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(name -> OF_OTHERS.stream().noneMatch(name::startsWith))
                .sorted()
                .toList();
    }

    private static long usedAfterCollection() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
