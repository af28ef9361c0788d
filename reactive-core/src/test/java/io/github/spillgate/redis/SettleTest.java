package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.Unprotected;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.scheduler.Schedulers;

/** A settlement takes effect once, by its id, and independently of the others in its command. */
class SettleTest extends ScriptedFixture {

    private static final Limit LOG = Limit.parse("5/1s");

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned", "5/1s burst=5"})
    void aSettlementSentTwiceTakesEffectOnce(String text) {
        Limit limit = Limit.parse(text);
        StoreDecision taken = take("a", limit, 2);
        Settlement more = settlement("s-1", taken, 3);
        assertThat(used(settle(more))).containsExactly(3L);
        assertThat(used(settle(more))).containsExactly(3L);
        assertThat(used(settle(more, more))).containsExactly(3L, 3L);
        Settlement less = settlement("s-2", take("a", limit, 2), 1);
        assertThat(used(settle(less))).containsExactly(4L);
        assertThat(used(settle(less, less))).containsExactly(4L, 4L);
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned", "5/1s burst=5"})
    void severalSettlementsOfOneCountMayShareACommand(String text) {
        Limit limit = Limit.parse(text);
        StoreDecision first = take("a", limit, 1);
        pass(1);
        StoreDecision second = take("a", limit, 3);
        StoreDecision other = take("b", limit, 2);
        List<Corrected> settled =
                settle(settlement("s-1", first, 4), settlement("s-2", second, 0), settlement("s-3", other, 0));
        assertThat(used(settled)).containsExactly(4L, 4L, 0L);
        assertThat(used("a", limit)).isEqualTo(4);
        assertThat(CorrectedForTests.usages(settled)).extracting(Usage::cost).containsExactly(3L, 0L, 0L);
    }

    /** The second settlement finds that as much is used as may be. */
    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned", "5/1s burst=5"})
    void aSettlementThatChangesNothingKeepsTheOneBeforeIt(String text) {
        Limit limit = Limit.parse(text);
        StoreDecision first = take("a", limit, 1);
        StoreDecision second = take("a", limit, 1);
        settle(settlement("s-1", first, 100), settlement("s-2", second, 100));
        assertThat(used("a", limit)).isEqualTo(10);
    }

    /** An instance counts it as its own use, and misses it if the data is lost. */
    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned", "5/1s burst=5"})
    void theReplySaysWhatWasCertainlyChargedNow(String text) {
        StoreDecision taken = take("a", Limit.parse(text), 2);
        Settlement more = settlement("s-1", taken, 5);
        assertThat(CorrectedForTests.usages(settle(more)))
                .extracting(Usage::cost)
                .containsExactly(3L);
        assertThat(CorrectedForTests.usages(settle(more)))
                .extracting(Usage::cost)
                .containsExactly(0L);
        // No more than 10 may be used.
        Settlement tooMuch = settlement("s-2", taken, 100);
        assertThat(CorrectedForTests.usages(settle(tooMuch)))
                .extracting(Usage::cost)
                .containsExactly(0L);
        Settlement less = settlement("s-3", take("b", Limit.parse(text), 2), 1);
        assertThat(CorrectedForTests.usages(settle(less)))
                .extracting(Usage::cost)
                .containsExactly(0L);
    }

    @Test
    void theIdIsKeptForAMinuteWhateverTheWindowIs() {
        RedisStore real =
                RedisStore.builder(client).namespace(keyspace.namespace()).build();
        RateLimiter days = Unprotected.limiter(real);
        for (String text : List.of("5/10ms", "5/30d counter", "5/30d", "5/30d burst=5")) {
            StoreDecision taken = (StoreDecision)
                    days.tryAcquire(Charge.of("a", Limit.parse(text)).permits(2))
                            .block();
            real.correct(List.of(settlement("s-" + text.length(), taken, 4))).block();
            String mark = keyspace.keyEndingWith("!s-" + text.length());
            assertThat(keyspace.commands().pttl(mark)).isBetween(50_001L, 60_000L);
        }
        real.close();
    }

    @Test
    void aSettlementAfterItsDeadlineTakesNoEffect() {
        StoreDecision taken = take("a", LOG, 2);
        Settlement late =
                new Settlement("s-1", taken.claims().get(0), taken.usages().get(0), 0, 4, 10, now() - 1_000_000_000L);
        Settlement inTime = settlement("s-2", take("b", LOG, 1), 3);
        assertThat(settle(late, inTime))
                .extracting(Corrected::outcome)
                .containsExactly(CorrectionOutcome.NOT_POSSIBLE, CorrectionOutcome.APPLIED);
        assertThat(used("a", LOG)).isEqualTo(2);
        assertThat(used("b", LOG)).isEqualTo(3);
    }

    @Test
    void aForeignValueDoesNotPreventOtherSettlements() {
        StoreDecision foreign = take("a", LOG, 1);
        keyspace.commands().set(keyspace.onlyKey(), "no count");
        StoreDecision taken = take("b", LOG, 1);
        assertThat(settle(settlement("s-1", foreign, 3), settlement("s-1", taken, 3)))
                .extracting(Corrected::outcome)
                .containsExactly(CorrectionOutcome.NOT_POSSIBLE, CorrectionOutcome.APPLIED);
        assertThat(used("b", LOG)).isEqualTo(3);
    }

    /** The log is full, so that the newest entry moves to the time of the settlement. */
    @Test
    void aDebtDoesNotMakeALogLongerThanItMayBe() {
        Limit limit = Limit.parse("10000/1h resolution=1ms");
        RateLimiter debts =
                RateLimiter.builder("api").store(new Unprotected(store)).debt(2).build();
        StoreDecision first = null;
        for (int i = 0; i < 10_000; i++) {
            StoreDecision taken =
                    (StoreDecision) debts.tryAcquire(Charge.of("a", limit)).block();
            first = first == null ? taken : first;
            pass(1);
        }
        assertThat(used(settle(settlement("s-1", first, 7)))).containsExactly(10_006L);
        pass(1);
        assertThat(used(settle(settlement("s-2", first, 7)))).containsExactly(10_012L);
        int entries = (keyspace.bytes(keyspace.countKey()).length - 44) / 9;
        assertThat(entries).isLessThanOrEqualTo(10_000 + 256);
    }

    private static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    private static Settlement settlement(String id, StoreDecision taken, long actual) {
        StoreUsage usage = taken.usages().get(0);
        long most = 2 * usage.limit().capacity();
        return new Settlement(id, usage.claim(), usage, 0, actual, most, now() + 50_000_000_000L);
    }

    private List<Corrected> settle(Settlement... settlements) {
        return store.correct(Arrays.asList(settlements)).block();
    }

    private StoreDecision take(String key, Limit limit, long permits) {
        StoreDecision taken = (StoreDecision)
                limiter.tryAcquire(Charge.of(key, limit).permits(permits)).block();
        assertThat(taken.isAllowed()).isTrue();
        return taken;
    }
}
