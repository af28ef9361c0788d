package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.CountName.Prefix;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ManualClock;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Names with equal hash codes. The texts {@code Aa} and {@code BB} have the same; a client may choose such keys. */
class CountNameTest {

    private final RateLimiter limiter = RateLimiter.builder("test")
            .store(LocalStore.bounded(100, new ManualClock()))
            .limit(Limit.perHour(1))
            .build();

    @Test
    void keysOfOneHashDoNotShareACount() {
        assertThat(isAllowed(Charge.of("Aa"))).isTrue();
        assertThat(isAllowed(Charge.of("BB"))).isTrue();
        assertThat(isAllowed(Charge.of("Aa"))).isFalse();
        assertThat(isAllowed(Charge.of("BB"))).isFalse();
    }

    @Test
    void groupsOfOneHashDoNotShareACount() {
        assertThat(isAllowed(Charge.of("a").group("Aa"))).isTrue();
        assertThat(isAllowed(Charge.of("a").group("BB"))).isTrue();
        assertThat(isAllowed(Charge.of("a").group("Aa"))).isFalse();
        assertThat(isAllowed(Charge.of("a").group("BB"))).isFalse();
    }

    @Test
    void aNameEqualsNamesWithTheSameTextOnly() {
        List<CountName> names = List.of(
                name("Aa", "x", null),
                name("BB", "x", null),
                name("x", "Aa", null),
                name("x", "BB", null),
                name("x", "y", "Aa"),
                name("x", "y", "BB"),
                name("x", "y", null));
        for (CountName one : names) {
            for (CountName other : names) {
                assertThat(one.equals(other)).isEqualTo(one.text().equals(other.text()));
                assertThat(one.compareTo(other)).isEqualTo(one.text().compareTo(other.text()));
            }
        }
        assertThat(name("x", "y", "z"))
                .isEqualTo(name("x", "y", "z"))
                .hasSameHashCodeAs(name("x", "y", "z"))
                .isEqualByComparingTo(name("x", "y", "z"))
                .hasToString("x:" + Limit.perHour(1).identity() + ":{z}y");
    }

    @Test
    void limitersThatShareALimitDoNotShareACount() {
        LocalStore store = LocalStore.bounded(100, new ManualClock());
        Charge charge = Charge.of("a", Limit.perHour(1));
        for (String name : List.of("one", "two")) {
            RateLimiter other = RateLimiter.builder(name).store(store).build();
            assertThat(other.tryAcquire(charge).block().isAllowed()).isTrue();
            assertThat(other.tryAcquire(charge).block().isAllowed()).isFalse();
        }
    }

    private boolean isAllowed(Charge charge) {
        return limiter.tryAcquire(charge).block().isAllowed();
    }

    private static CountName name(String limiter, String key, String group) {
        return new CountName(new Prefix(limiter, Limit.perHour(1)), key, group);
    }
}
