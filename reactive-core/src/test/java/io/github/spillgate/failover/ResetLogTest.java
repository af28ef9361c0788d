package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.AbstractList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class ResetLogTest {

    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(LocalStore.bounded(100))
            .limit(Limit.perHour(10))
            .build();
    private final ResetLog resets = new ResetLog();

    @Test
    void aResetAfterTheRequestIsFound() {
        long before = Deadlines.now();
        resets.note(claims("a"));
        assertThat(resets.isAnySince(claims("a"), before)).isTrue();
        assertThat(resets.isAnySince(claims("b"), before)).isFalse();
        assertThat(resets.isAnySince(claims("a"), Deadlines.now() + 1)).isFalse();
    }

    @Test
    void theLogIsBoundedAndAssumesAResetForForgottenTimes() {
        long first = Deadlines.now();
        int most = 0;
        long last = first;
        for (int i = 0; i < 150_000; i++) {
            last = i == 140_000 ? Deadlines.now() : last;
            resets.note(claims("user:" + i));
            most = Math.max(most, resets.size());
        }
        assertThat(most).isBetween(50_000, 100_000);
        assertThat(resets.isAnySince(claims("never reset"), first)).isTrue();
        assertThat(resets.isAnySince(claims("never reset"), last)).isFalse();
        assertThat(resets.isAnySince(claims("user:140000"), last)).isTrue();
    }

    @Test
    void aResetOfOneOfSeveralCountsIsFound() {
        long before = Deadlines.now();
        resets.note(claims("a", "b"));
        assertThat(resets.isAnySince(claims("c", "b"), before)).isTrue();
        assertThat(resets.isAnySince(claims("a", "c"), before)).isTrue();
        assertThat(resets.isAnySince(claims("c", "d"), before)).isFalse();
    }

    /** The store may have executed the reset second. */
    @Test
    void aResetAtTheInstantOfTheRequestIsFound() {
        try (VirtualTime time = new VirtualTime()) {
            ResetLog here = new ResetLog();
            time.passMillis(1);
            here.note(claims("a"));
            assertThat(here.isAnySince(claims("a"), Deadlines.now())).isTrue();
            assertThat(here.isAnySince(claims("b"), Deadlines.now())).isFalse();
        }
    }

    @Test
    void aResetIsFoundAfterManyOthers() {
        long before = Deadlines.now();
        resets.note(claims("a"));
        noteMany(60_000);
        assertThat(resets.isAnySince(claims("a"), before)).isTrue();
        assertThat(resets.isAnySince(claims("never reset"), before)).isFalse();
    }

    @Test
    void resetsOlderThanEveryPossibleRequestAreForgotten() {
        try (VirtualTime time = new VirtualTime()) {
            ResetLog here = new ResetLog();
            time.passMillis(1);
            long asked = Deadlines.now();
            here.note(claims("a"));
            time.pass(Duration.ofMinutes(2));
            here.note(claims("b"));
            assertThat(here.isAnySince(claims("a"), asked)).isTrue();
            assertThat(here.isAnySince(claims("never reset"), asked)).isFalse();
            time.pass(Duration.ofMinutes(2).plusMillis(1));
            here.note(claims("c"));
            assertThat(here.size()).isEqualTo(2);
        }
    }

    /** Adds resets at each access to the claims, as other threads may. */
    @Test
    void aResetForgottenDuringTheLookupIsFound() {
        long before = Deadlines.now();
        List<Claim> asked = claims("a");
        resets.note(asked);
        List<Claim> looking = new AbstractList<>() {
            @Override
            public Claim get(int index) {
                noteMany(100_001);
                return asked.get(index);
            }

            @Override
            public int size() {
                return asked.size();
            }
        };
        assertThat(resets.isAnySince(looking, before)).isTrue();
    }

    private void noteMany(int number) {
        for (int i = 0; i < number; i++) {
            resets.note(claims("user:" + i));
        }
    }

    private List<Claim> claims(String... keys) {
        List<Charge> charges = Stream.of(keys).map(Charge::of).toList();
        return DecidedClaims.of(limiter.peek(charges).block());
    }
}
