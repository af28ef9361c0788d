package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ChargeTest {

    @Test
    void returnsItsArguments() {
        Charge charge = Charge.of("user:42", Limit.perMinute(1), Limit.perDay(5))
                .permits(3)
                .group("tenant-7");
        assertThat(charge.key()).isEqualTo("user:42");
        assertThat(charge.limits()).containsExactly(Limit.perMinute(1), Limit.perDay(5));
        assertThat(charge.permits()).isEqualTo(3);
        assertThat(charge.group()).contains("tenant-7");
        assertThat(charge)
                .isEqualTo(Charge.of("user:42", List.of(Limit.perMinute(1), Limit.perDay(5)))
                        .group("tenant-7")
                        .permits(3));
        assertThat(Charge.of("a").permits()).isEqualTo(1);
    }

    @Test
    void invalidArgumentsAreRejectedOnCreation() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Charge.of(""))
                .withMessage("key \"\" is empty: expected at least one character, for example \"user:42\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Charge.of("a").group(""))
                .withMessageContaining("for example \"tenant-7\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Charge.of("a", -1))
                .withMessage("permits -1 are negative: expected 0 or more, for example 1");
        assertThatNullPointerException()
                .isThrownBy(() -> Charge.of((String) null))
                .withMessage("key is null: expected one, for example \"user:42\"");
    }

    @Test
    void limitsThatWouldShareACountAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Charge.of("a", Limit.perMinute(1), Limit.perMinute(2)))
                .withMessageContaining("\"2/1m\"")
                .withMessageContaining(".named(\"burst\")");
        assertThat(Charge.of("a", Limit.perMinute(1), Limit.perMinute(2).named("burst"))
                        .limits())
                .hasSize(2);
    }

    @Test
    void chargesThatDifferInAnythingAreNotEqual() {
        Charge charge = Charge.of("a", Limit.perDay(1));
        assertThat(charge)
                .isEqualTo(Charge.of("a", Limit.perDay(1)))
                .hasSameHashCodeAs(Charge.of("a", Limit.perDay(1)))
                .isNotEqualTo(null);
        for (Charge other : List.of(
                Charge.of("b", Limit.perDay(1)),
                Charge.of("a"),
                Charge.of("a", Limit.perDay(2)),
                charge.permits(2),
                charge.group("g"))) {
            assertThat(charge).isNotEqualTo(other);
        }
    }

    @Test
    void aNullArgumentIsNamed() {
        assertThatNullPointerException()
                .isThrownBy(() -> Charge.of("a", (Limit) null))
                .withMessage("one of the limits is null: expected one, for example Limit.perMinute(120)");
        assertThatNullPointerException()
                .isThrownBy(() -> Charge.of("a", (Limit[]) null))
                .withMessageStartingWith("limits are null");
        assertThatNullPointerException()
                .isThrownBy(() -> Charge.of("a").group(null))
                .withMessageStartingWith("group is null");
    }

    @Test
    void tooManyLimitsOnOneKeyAreRejected() {
        List<Limit> limits = IntStream.range(0, 17)
                .mapToObj(i -> Limit.perDay(1).named("limit-" + i))
                .toList();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Charge.of("a", limits))
                .withMessageContaining("17 limits")
                .withMessageContaining("expected at most 16");
        assertThat(Charge.of("a", limits.subList(0, 16)).limits()).hasSize(16);
    }

    @Test
    void theTextForALogEscapesTheKey() {
        assertThat(Charge.of("\u001b[31m\nx")).hasToString("Charge[{%1B%5B31m%0Ax}, permits=1, limits=[]]");
    }
}
