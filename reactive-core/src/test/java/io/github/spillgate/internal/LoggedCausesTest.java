package io.github.spillgate.internal;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class LoggedCausesTest {

    private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - 1_000);
    private final LoggedCauses causes = new LoggedCauses(nanos::get);

    @Test
    void eachCauseIsLoggedAtMostOnceAMinute() {
        assertThat(causes.add("a")).isTrue();
        assertThat(causes.add("b")).isTrue();
        nanos.addAndGet(Duration.ofMinutes(1).toNanos() - 1);
        assertThat(causes.add("a")).isFalse();
        nanos.incrementAndGet();
        assertThat(causes.add("a")).isTrue();
        assertThat(causes.add("a")).isFalse();
    }

    @Test
    void atMostSixtyFourCausesAreLoggedInAMinute() {
        for (int minute = 0; minute < 3; minute++) {
            assertThat(IntStream.range(0, 1_000).filter(i -> causes.add("cause " + i)))
                    .hasSize(LoggedCauses.MOST);
            nanos.addAndGet(Duration.ofMinutes(1).toNanos());
        }
        assertThat(causes.add("another")).as("older ones are forgotten").isTrue();
    }
}
