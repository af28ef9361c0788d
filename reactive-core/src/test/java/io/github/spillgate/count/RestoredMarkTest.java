package io.github.spillgate.count;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.testkit.DecidedClaims;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RestoredMarkTest {

    private static final Limit LIMIT = Limit.parse("100/1s counter");
    private static final long MICROS = 1_790_000_000_000_000L;

    private final RateCount count = RateCount.of(LIMIT);

    @ParameterizedTest
    @ValueSource(strings = {"5 8 1 2 3", "8191 65535 1790000000000 0 9007199254740991 16 1 2 3"})
    void aMarkIsWrittenAsItWasRead(String text) {
        assertThat(RestoredMark.parse(text).text()).isEqualTo(text);
    }

    /** Another program may have written it. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "5",
                "5 8 1 2",
                "5 8 1 2 -3",
                "5 8 1 2 3 ",
                "5 8 1 2 3.5",
                "5 8 1 2 3 8 1 2 3 8 1 2 3",
                "5 8 1 2 12345678901234567890",
                "123456 8 1 2 3",
                "five"
            })
    void aTextOfAnotherFormIsNoMark(String text) {
        assertThat(RestoredMark.parse(text)).isSameAs(RestoredMark.NONE);
    }

    /** The last two: an instance that lags behind may still know the last but one. */
    @Test
    void aMarkHasTheLastTwoLivesThatWereLost() {
        RestoredMark mark = RestoredMark.NONE;
        for (int lost : new int[] {8, 16, 24}) {
            mark = restore(lost, 5, mark);
        }
        assertThat(mark.text()).matches("\\d+ 24 \\d+ 0 5 16 \\d+ 0 5");
    }

    @Test
    void theSameMarkIsReturnedIfNothingIsRestored() {
        RestoredMark mark = restore(8, 5, RestoredMark.NONE);
        assertThat(List.of(restore(8, 5, mark), restore(8, 0, mark), restore(count.life(), 9, mark)))
                .allSatisfy(same -> assertThat(same).isSameAs(mark));
        assertThat(count.restore(16, List.of(), mark, MICROS)).isSameAs(mark);
    }

    private RestoredMark restore(int lost, long permits, RestoredMark mark) {
        count.advance(claim(), MICROS / 1_000);
        return count.restore(lost, List.of(new Grants(0, 0, permits)), mark, MICROS);
    }

    private static Claim claim() {
        RateLimiter limiter =
                RateLimiter.builder("api").store(LocalStore.bounded(16)).build();
        return DecidedClaims.of(limiter.peek(Charge.of("k", LIMIT)).block()).get(0);
    }
}
