package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.CountName.Prefix;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Names with equal hash codes. The texts {@code Aa} and {@code BB} have the same; a client may choose such keys. */
class CountNameTest {

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
                assertThat(one.compareTo(other) == 0).isEqualTo(one.equals(other));
                for (CountName third : names) {
                    assertThat(one.compareTo(other) < 0 && other.compareTo(third) < 0 && third.compareTo(one) <= 0)
                            .as("a circle of %s, %s and %s", one, other, third)
                            .isFalse();
                }
            }
        }
        assertThat(name("x", "y", "z"))
                .isEqualTo(name("x", "y", "z"))
                .hasSameHashCodeAs(name("x", "y", "z"))
                .isEqualByComparingTo(name("x", "y", "z"))
                .hasToString("x:" + Limit.perHour(1).identity() + ":{z}y");
    }

    private static CountName name(String limiter, String key, String group) {
        return new CountName(new Prefix(limiter, Limit.perHour(1)), key, group);
    }
}
