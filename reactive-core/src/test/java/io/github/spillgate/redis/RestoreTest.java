package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Restoring permits that Redis has lost and that several instances know in part. */
class RestoreTest {

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final ScriptedClock scripted = new ScriptedClock(client);
    private final ManualClock clock = new ManualClock();
    private final RedisStore store = scripted.store(client, false);

    @AfterEach
    void shutdown() {
        store.close();
        scripted.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** All instances know the usage of all, so the most of it counts. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1s", "100/1s counter", "100/1s burst=100"})
    void permitsThatTwoInstancesKnowAreRestoredOnce(String limit) {
        Claim claim = claim(limit);
        assertThat(restore(claim, 14)).isEqualTo(14);
        assertThat(restore(claim, 22)).isEqualTo(22);
        assertThat(restore(claim, 14)).isEqualTo(22);
    }

    /** Otherwise the permits of the other instance, which are still in use, could be granted again. */
    @ParameterizedTest
    @CsvSource({"100/1s, 1001", "100/1s counter, 1990", "100/1s counter, 1500", "100/1s burst=100, 140"})
    void restoredPermitsThatHaveExpiredSinceHideNoOthers(String limit, int passed) {
        Claim claim = claim(limit);
        long since = clock.millis() - 10;
        restore(claim, 14, since);
        clock.advanceMillis(passed);
        scripted.show(clock);
        assertThat(restore(claim, 22, since)).isEqualTo(22);
    }

    /** What was granted since the other restoration is in addition to the permits of both. */
    @ParameterizedTest
    @CsvSource({"100/1s, 1001", "100/1s counter, 2000"})
    void permitsThatWereGrantedSinceDoNotStandForRestoredOnes(String limit, int passed) {
        Claim claim = claim(limit);
        long since = clock.millis() - 10;
        restore(claim, 14, since);
        clock.advanceMillis(passed);
        scripted.show(clock);
        store.take(List.of(claim.asking(5))).block();
        assertThat(restore(claim, 22, since)).isEqualTo(27);
    }

    private Claim claim(String limit) {
        scripted.show(clock);
        RateLimiter limiter =
                RateLimiter.builder("api").store(new Unprotected(store)).build();
        return DecidedClaims.of(Objects.requireNonNull(
                        limiter.peek(Charge.of("a", Limit.parse(limit))).block()))
                .get(0);
    }

    private long restore(Claim claim, long permits) {
        return restore(claim, permits, clock.millis() - 10);
    }

    /** Restores permits that were just taken, and returns the usage then. */
    private long restore(Claim claim, long permits, long since) {
        LostPermits lost = new LostPermits(claim, since, List.of(new Grants(0, 0, permits)));
        return Objects.requireNonNull(store.restore(lost).block())
                .usages()
                .get(0)
                .used();
    }
}
