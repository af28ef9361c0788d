package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class QuotaTest {

    private static final ZoneId BERLIN = ZoneId.of("Europe/Berlin");

    @Test
    void theTextFormEqualsTheMethods() {
        assertThat(Limit.parse("10000 monthly zone=Europe/Berlin from=15 at=06:00 name=plan"))
                .isEqualTo(Limit.monthly(10_000)
                        .in(BERLIN)
                        .from(15)
                        .at(LocalTime.of(6, 0))
                        .named("plan"));
        assertThat(Limit.parse("5 weekly")).isEqualTo(Limit.weekly(5));
        assertThat(Limit.parse("5 yearly")).isEqualTo(Limit.yearly(5));
        assertThat(Limit.parse("5 daily")).isEqualTo(Limit.daily(5).in(ZoneOffset.UTC));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "0 daily | permits 0 are out of range: expected 1 to 1000000000000000 for a quota",
                "5 daily near=0% | near 0% is out of range: expected 1% to 100%",
                "5 daily near=101% | near 101% is out of range",
                "5 daily near=80 | near \"80\" is not a percentage: expected 1% to 100%, such as 80%",
                "5 daily daily | the word \"daily\" is none of log, counter",
                "5 daily zone=Berlin | zone \"Berlin\" is unknown: expected one of the time-zone database or an offset",
                "5 daily zone= | zone \"\" is unknown",
                "5 daily at=6:00 | at \"6:00\" is not a time of the day: expected 00:00 to 23:59, such as 06:00",
                "5 daily at=24:00 | at \"24:00\" is not a time of the day",
                "5 daily at=06:00:30 | at \"06:00:30\" is not a time of the day",
                "5 daily from=2 | from=… is for a monthly quota only",
                "5 monthly from=32 | day 32 is not in a month: expected 1 to 31",
                "5 monthly from=0 | day 0 is not in a month",
                "5 monthly from=last | from \"last\" is not a day of the month: expected 1 to 31, such as 15",
                "5 daily leased | from=…, counting-denied, near=… and name=…, but found \"leased\"",
                "5 daily burst=9 | a quota has only zone=…",
                "5 daily counter | a quota has only zone=…",
                "5 daily zone=UTC zone=UTC | zone= is there twice"
            })
    void malformedTextIsRejectedWithAnExample(String text, String message) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.parse(text))
                .withMessageStartingWith("limit " + Text.quote(text) + " cannot be read: ")
                .withMessageContaining(message)
                .withMessageEndingWith("; for example \"10000 monthly zone=Europe/Berlin from=15\"");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"5/1d zone=Europe/Berlin", "5/1d at=06:00", "5/24h counter from=15", "5 concurrent at=06:00"})
    void otherKindsHaveNoCalendar(String text) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.parse(text))
                .withMessageContaining(text.contains("concurrent") ? "found \"at=\"" : "are for a calendar quota only");
    }

    @Test
    void aDaySlidesUnlessItIsSpelledDaily() {
        assertThat(Limit.parse("100/1d")).isInstanceOf(Limit.Log.class);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.parse("100"))
                .withMessageContaining("daily, weekly, monthly, yearly");
    }

    @Test
    void wrongSettingsAreRejectedWithAnExample() {
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.daily(5).from(2))
                .withMessageContaining("for example Limit.monthly(10_000).from(15)");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.daily(5).at(LocalTime.of(6, 0, 30)))
                .withMessageContaining("06:00:30 is not in whole minutes");
        assertThatIllegalStateException()
                .isThrownBy(Limit.daily(5)::leased)
                .withMessageContaining("is neither a log nor a token bucket");
        assertThatIllegalStateException().isThrownBy(Limit.daily(5)::counter).withMessageContaining("calendar quota");
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.daily(5).burst(9))
                .withMessageContaining("calendar quota, which has no burst");
        assertThatIllegalStateException().isThrownBy(Limit.daily(5)::alignedToClock);
    }

    @Test
    void aRequestHasTheBoundariesOfThePresentPeriodAndOfTheNearerOne() {
        Limit.Quota quota = Limit.daily(5);
        for (int hour : new int[] {0, 11, 12, 23}) {
            Instant now = Instant.parse("2025-06-10T00:00:00Z").plus(Duration.ofHours(hour));
            LimitKind.Numbers numbers = LimitKind.numbers(quota, now.toEpochMilli());
            Instant first = Instant.parse(hour < 12 ? "2025-06-09T00:00:00Z" : "2025-06-10T00:00:00Z");
            assertThat(numbers)
                    .isEqualTo(new LimitKind.Numbers(
                            6,
                            first.toEpochMilli(),
                            first.plus(Duration.ofDays(1)).toEpochMilli(),
                            first.plus(Duration.ofDays(2)).toEpochMilli(),
                            0));
        }
    }

    @Test
    void theLeastTimeToGrantIsALowerBound() {
        Limit.Quota quota = Limit.daily(10);
        long day = Duration.ofDays(1).toMillis();
        assertThat(LimitKind.leastTimeToGrant(quota, 20)).isZero();
        assertThat(LimitKind.leastTimeToGrant(quota, 21)).isBetween(1L, day);
        assertThat(LimitKind.leastTimeToGrant(quota, 41)).isBetween(day, 3 * day);
    }

    @Test
    void lengthsAreThoseOfTheLongestPeriod() {
        assertThat(Limit.daily(1).quotaWindow()).isEqualTo(Duration.ofDays(1));
        assertThat(Limit.monthly(1).window()).isEqualTo(Duration.ofDays(31));
        assertThat(LimitKind.reach(Limit.yearly(1)))
                .isEqualTo(Duration.ofDays(367).toMillis());
    }

    @Test
    void eachTimeIsInOnePeriod() {
        Limit.Quota quota = Limit.monthly(1).in(BERLIN).from(15);
        for (int month : new int[] {3, 1, 2, 3, 1}) { // also back
            Instant start = quota.periodStart(Instant.parse("2025-0" + month + "-20T00:00:00Z"));
            Instant end = quota.periodEnd(start);
            assertThat(start).isEqualTo(Instant.parse("2025-0" + month + "-14T23:00:00Z"));
            assertThat(quota.periodEnd(end.minusMillis(1))).isEqualTo(end);
            assertThat(quota.periodStart(end)).isEqualTo(end);
            assertThat(quota.periodEnd(start.minusMillis(1))).isEqualTo(start);
        }
    }
}
