package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class LimitTest {

    @Test
    void theShortFormsAreLogsOfTheirWindow() {
        assertThat(Limit.perSecond(10)).isEqualTo(Limit.of(10, Duration.ofSeconds(1)));
        assertThat(Limit.perMinute(10)).isEqualTo(Limit.of(10, Duration.ofMinutes(1)));
        assertThat(Limit.perHour(10)).isEqualTo(Limit.of(10, Duration.ofHours(1)));
        assertThat(Limit.perDay(10)).isEqualTo(Limit.of(10, Duration.ofDays(1)));
        Limit limit = Limit.perMinute(120);
        assertThat(limit.name()).isEqualTo("1m");
        assertThat(limit.permits()).isEqualTo(120);
        assertThat(limit.window()).isEqualTo(Duration.ofMinutes(1));
        assertThat(limit).isInstanceOf(Limit.Log.class);
        assertThat(limit.resolution()).isEqualTo(Duration.ofMillis(1));
    }

    @ParameterizedTest
    @CsvSource({
        "100/1m, 100/1m",
        "10/s, 10/1s",
        "3000/10m, 3000/10m",
        "10000/24h counter, 10000/24h counter",
        "10000/1d counter, 10000/24h counter",
        "5/7d, 5/7d",
        "5/168h, 5/7d",
        "90/90m, 90/90m",
        "1/100ms, 1/100ms",
        "1/1000ms, 1/1s",
        "'  7/1h   name=x   counting-denied ', 7/1h counting-denied name=x",
        "10/1m log, 10/1m",
        "10/1m name=1m, 10/1m",
        "10/1m resolution=1ms, 10/1m",
        "10/1m resolution=10ms, 10/1m resolution=10ms",
        "10/1m aligned counter, 10/1m counter aligned",
        "10000000/24h, 10000000/24h",
        "3/366d, 3/366d",
        "10/s burst=50, 10/1s burst=50",
        "10/s burst=10, 10/1s burst=10",
        "100/1m name=api burst=20 counting-denied, 100/1m burst=20 counting-denied name=api",
        "100000000000000/1ms burst=100000000000000, 100000000000000/1ms burst=100000000000000",
        "1/366d burst=100, 1/366d burst=100",
        "20 concurrent, 20 concurrent",
        "1000 concurrent hold=5m, 1000 concurrent hold=5m",
        "1 concurrent hold=24h name=a, 1 concurrent hold=24h name=a",
        "2 concurrent name=b, 2 concurrent name=b",
        "20 concurrent retry=5s, 20 concurrent retry=5s",
        "20 concurrent hold=5m retry=100ms name=a, 20 concurrent hold=5m retry=100ms name=a",
        "20 concurrent retry=24h, 20 concurrent retry=24h",
        "20 concurrent hold=60s, 20 concurrent",
        "20 concurrent hold=m, 20 concurrent",
        "20 concurrent retry=1000ms, 20 concurrent",
        "20 concurrent retry=m, 20 concurrent retry=1m",
        "500 daily, 500 daily",
        "'  7   weekly  ', 7 weekly",
        "1 yearly, 1 yearly",
        "10000 monthly zone=Europe/Berlin from=15, 10000 monthly zone=Europe/Berlin from=15",
        "10000 monthly from=15 zone=Europe/Berlin, 10000 monthly zone=Europe/Berlin from=15",
        "10 monthly from=1, 10 monthly",
        "10 monthly from=31 at=06:00, 10 monthly at=06:00 from=31",
        "10 daily zone=UTC, 10 daily",
        "10 daily zone=Etc/UTC at=00:00, 10 daily",
        "10 daily zone=+05:30, 10 daily zone=+05:30",
        "10 daily counting-denied name=plan at=23:59, 10 daily at=23:59 counting-denied name=plan",
        "10 daily name=daily, 10 daily",
        "1000000000000000 daily, 1000000000000000 daily"
    })
    void theTextFormIsReadAndWritten(String text, String canonical) {
        Limit limit = Limit.parse(text);
        assertThat(limit).hasToString(canonical);
        assertThat(Limit.parse(limit.toString())).isEqualTo(limit).hasSameHashCodeAs(limit);
    }

    @Test
    void theTextFormEqualsTheMethods() {
        assertThat(Limit.parse("10000/24h counter aligned counting-denied name=quota"))
                .isEqualTo(Limit.perDay(10_000)
                        .counter()
                        .alignedToClock()
                        .countingDenied()
                        .named("quota"));
        assertThat(Limit.parse("10/s burst=50"))
                .isEqualTo(Limit.perSecond(10).burst(50))
                .isEqualTo(Limit.bucket(10, Duration.ofSeconds(1), 50));
        assertThat(Limit.parse("100/1m burst=20 counting-denied name=api"))
                .isEqualTo(Limit.perMinute(100).countingDenied().named("api").burst(20));
        assertThat(Limit.parse("10/1m resolution=50ms"))
                .isEqualTo(Limit.perMinute(10).resolution(Duration.ofMillis(50)));
    }

    static Stream<String> malformed() {
        return Stream.concat(Stream.of("", " ", "100/1m\nname=\u001b[31m"), Stream.of("""
                100 | 100/ | /1m | 100/1 | 100/1x | 100/1M | 100 / 1m | 1.5/1m | 100/1.5m | x/1m | 0/1m | -1/1m
                100/0m | 100/-1m | 100/367d | 100/1m quick | 100/1m log counter | 100/1m counter counter
                100/1m counter aligned aligned | 100/1m aligned | 100/1m counting-denied counting-denied
                100/1m resolution=1s counter | 100/1m resolution=1s resolution=2s | 100/1m resolution=
                100/1m resolution=2m | 100/1m resolution=0ms | 100/1m burst= | 100/1m burst=x | 100/1m burst=1.5
                100/1m burst=0 | 100/1m burst=-1 | 100/1m burst | 100/1m burst=2 burst=3
                100/1m burst=20 counter | 100/1m burst=20 log | 100/1m burst=20 aligned
                100/1m burst=20 resolution=1s | 100/1m burst=9999999999999999999 | 1/366d burst=101
                1000000/366d burst=10 | 100/1m name= | 100/1m name=a:b | 100/1m name=a name=b | 99999999999/1m
                20000/1m resolution=1ms | 9999999999999999999999/1m | 20 Concurrent | 10/500ms leased
                100/1m leased counting-denied | 1/999999999999d | 0 concurrent | 1001 concurrent | -1 concurrent
                20 concurrent hold=999ms | 20 concurrent hold=25h | 20 concurrent hold=x
                20 concurrent hold=1m hold=1m | 20 concurrent retry=99ms | 20 concurrent retry=25h
                20 concurrent retry=soon | 20 concurrent retry=1s retry=1s | 20 concurrent counter
                20 concurrent burst=5 | 20 concurrent counting-denied | 20 concurrent aligned
                20 concurrent resolution=1s | 20 concurrent concurrent | 20/1m concurrent | 20/1m hold=60s
                20/1m retry=1s | 20 | concurrent""".split("\\s*[|\n]\\s*", -1)));
    }

    @ParameterizedTest
    @MethodSource("malformed")
    void malformedTextIsRejectedWithAnExample(String text) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.parse(text))
                .withMessageStartingWith("limit ")
                .withMessageContaining(Text.quote(text))
                .withMessageContaining("for example \"100/1m\"")
                .withMessageNotContaining("\n")
                .withMessageNotContaining("\u001b");
    }

    @Test
    void permitsOutOfRangeAreRejected() {
        for (long permits : new long[] {0, -1, Long.MIN_VALUE, Limit.MOST_LOG_PERMITS + 1}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Limit.perMinute(permits))
                    .withMessageContaining("permits " + permits)
                    .withMessageContaining("expected 1 to 4294967295")
                    .withMessageContaining("for example");
        }
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.counter(Limit.MOST_COUNTER_PERMITS + 1, Duration.ofDays(1)))
                .withMessageContaining("expected 1 to 1000000000000000");
        assertThat(Limit.of(Limit.MOST_LOG_PERMITS, Duration.ofDays(1)).permits())
                .isEqualTo(0xffff_ffffL);
    }

    @Test
    void windowsOutOfRangeAreRejected() {
        for (Duration window : new Duration[] {
            Duration.ZERO,
            Duration.ofMillis(-1),
            Duration.ofNanos(1),
            Duration.ofNanos(1_500_000),
            Duration.ofDays(366).plusMillis(1),
            Duration.ofSeconds(Long.MAX_VALUE)
        }) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Limit.of(1, window))
                    .withMessageContaining("window " + window)
                    .withMessageContaining("expected")
                    .withMessageContaining("for example Duration.ofMinutes(1)");
        }
        assertThatNullPointerException()
                .isThrownBy(() -> Limit.of(1, null))
                .withMessageContaining("window is null: expected one, for example Duration.ofMinutes(1)");
    }

    @Test
    void aResolutionOutOfRangeIsRejected() {
        Limit big = Limit.perDay(10_000_000);
        assertThat(big.resolution()).isEqualTo(Duration.ofMillis(8_641));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> big.resolution(Duration.ofSeconds(1)))
                .withMessageContaining("resolution PT1S")
                .withMessageContaining("expected from 8641ms")
                .withMessageContaining("Duration.ofMillis(86400)");
        assertThatIllegalArgumentException().isThrownBy(() -> big.resolution(Duration.ofDays(2)));
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.perDay(1).counter().resolution(Duration.ofMillis(1)))
                .withMessageContaining("\"1/24h counter\"")
                .withMessageContaining("for example");
    }

    @Test
    void theDefaultResolutionBoundsTheSizeOfALog() {
        for (long permits : new long[] {10_001, 1_000_000, Limit.MOST_LOG_PERMITS}) {
            for (long millis : new long[] {1, 9_998, 9_999, 10_000, 10_001, 60_000, 86_400_000, 366 * 86_400_000L}) {
                long resolution = Limit.of(permits, Duration.ofMillis(millis))
                        .resolution()
                        .toMillis();
                // Live slots: the current one, and each one that ended less than a window ago.
                long live = (millis + resolution - 1) / resolution + 1;
                assertThat(live).as("%d in %d ms", permits, millis).isLessThanOrEqualTo(Limit.MOST_LOG_ENTRIES);
            }
        }
    }

    @Test
    void theDefaultResolutionIsTheFinestThatKeepsALogWithinItsBound() {
        assertThat(Limit.perDay(Limit.MOST_LOG_ENTRIES).resolution()).isEqualTo(Duration.ofMillis(1));
        for (long millis : new long[] {10_000, 10_001, 19_998, 19_999, 60_000, 86_400_000}) {
            long finer =
                    Limit.of(10_001, Duration.ofMillis(millis)).resolution().toMillis() - 1;
            assertThat(finer).isPositive();
            assertThat((millis + finer - 1) / finer + 1).as("in %d ms", millis).isGreaterThan(Limit.MOST_LOG_ENTRIES);
        }
    }

    @Test
    void aResolutionMayBeAsFineAsTheDefaultAndAsCoarseAsTheWindow() {
        Limit big = Limit.perDay(10_000_000);
        assertThat(big.resolution(big.resolution())).isEqualTo(big);
        assertThat(big.resolution(big.window()).resolution()).isEqualTo(Duration.ofDays(1));
    }

    @Test
    void aHitCountsUntilItsSlotIsOneWindowOldOrForTwoWindowsOfACounter() {
        Limit log = Limit.perMinute(10);
        assertThat(LimitKind.reach(log)).isEqualTo(60_001);
        assertThat(LimitKind.reach(log.resolution(Duration.ofSeconds(2)))).isEqualTo(62_000);
        assertThat(LimitKind.reach(log.counter())).isEqualTo(120_000);
    }

    @Test
    void aBucketHasARateAndABurst() {
        Limit bucket = Limit.perSecond(10).burst(50);
        assertThat(bucket).isInstanceOf(Limit.Bucket.class);
        assertThat(bucket.permits()).isEqualTo(10);
        assertThat(bucket.window()).isEqualTo(Duration.ofSeconds(1));
        assertThat(bucket.capacity()).isEqualTo(50);
        assertThat(bucket.name()).isEqualTo("1s");
        assertThat(bucket.quotaWindow()).isEqualTo(Duration.ofSeconds(5));
        assertThat(LimitKind.reach(bucket)).isEqualTo(5_000);
        assertThat(bucket.burst(20).capacity()).isEqualTo(20);
        assertThat(Limit.bucket(3, Duration.ofSeconds(1), 10).quotaWindow()).isEqualTo(Duration.ofMillis(3_334));
        assertThat(Limit.perMinute(10).capacity()).isEqualTo(10);
        assertThat(Limit.perMinute(10).counter().capacity()).isEqualTo(10);
    }

    @Test
    void aBurstIsForABucketOnly() {
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.perDay(1).counter().burst(2))
                .withMessageContaining("\"1/24h counter\"")
                .withMessageContaining("for example Limit.perSecond(10).burst(50)");
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.perDay(1).burst(2).counter())
                .withMessageContaining("\"1/24h burst=2\"");
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.perDay(1).burst(2).alignedToClock());
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.perDay(1).burst(2).resolution(Duration.ofMillis(1)));
    }

    /** All products of a bucket are exact in a double, and it is filled within a hundred years. */
    @Test
    void burstsOutOfRangeAreRejected() {
        for (long burst : new long[] {0, -1, Long.MIN_VALUE, Limit.MOST_BUCKET_PERMITS + 1, Long.MAX_VALUE}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Limit.bucket(1_000_000_000, Duration.ofMillis(1), burst))
                    .withMessageContaining("burst " + burst)
                    .withMessageContaining("expected 1 to 100000000000000")
                    .withMessageContaining("for example 50");
        }
        long most = ((1L << 53) - 1) / 1_000;
        assertThat(Limit.bucket(1_000_000, Duration.ofSeconds(1), most).capacity())
                .isEqualTo(most);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.bucket(1_000_000, Duration.ofSeconds(1), most + 1))
                .withMessageContaining("expected 1 to " + most);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.bucket(most + 1, Duration.ofSeconds(1), 1))
                .withMessageContaining("permits " + (most + 1))
                .withMessageContaining("expected 1 to " + most);
        assertThat(Limit.bucket(1, Duration.ofDays(1), 36_600).quotaWindow()).isEqualTo(Limit.LONGEST_FILL);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.bucket(1, Duration.ofDays(1), 36_601))
                .withMessageContaining("expected 1 to 36600 for 1 permits in 24h");
    }

    @Test
    void aLogHasNoWindowsToAlign() {
        assertThatIllegalStateException()
                .isThrownBy(() -> Limit.perDay(1).alignedToClock())
                .withMessageContaining("\"1/24h\"")
                .withMessageContaining(".counter().alignedToClock()");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "a b", "ä", "a:b", "a{b", "a\nb"})
    void namesThatNeedEscapingAreRejected(String name) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Limit.perDay(1).named(name))
                .withMessageContaining("limit name " + Text.quote(name))
                .withMessageContaining("for example \"burst\"");
        assertThatIllegalArgumentException().isThrownBy(() -> Limit.perDay(1).named("x".repeat(65)));
    }

    @Test
    void eachMethodKeepsTheOtherSettings() {
        Limit all = Limit.perDay(5).countingDenied().named("x").counter().alignedToClock();
        assertThat(all).hasToString("5/24h counter aligned counting-denied name=x");
        assertThat(Limit.perDay(5)
                        .resolution(Duration.ofSeconds(1))
                        .countingDenied()
                        .named("x"))
                .hasToString("5/24h resolution=1s counting-denied name=x");
        assertThat(Limit.concurrent(20)
                        .retryAfter(Duration.ofSeconds(5))
                        .hold(Duration.ofSeconds(30))
                        .named("exports"))
                .hasToString("20 concurrent hold=30s retry=5s name=exports");
    }

    @Test
    void limitsThatDifferInAnythingAreNotEqual() {
        Limit limit = Limit.perDay(5);
        assertThat(limit).isEqualTo(Limit.perDay(5)).isNotEqualTo(null);
        for (Limit other : new Limit[] {
            Limit.perDay(6),
            Limit.perHour(5),
            limit.countingDenied(),
            limit.named("x"),
            limit.counter(),
            limit.counter().alignedToClock(),
            limit.resolution(Duration.ofSeconds(1)),
            limit.burst(5)
        }) {
            assertThat(limit).isNotEqualTo(other);
        }
        assertThat(limit.burst(5)).isNotEqualTo(limit.burst(6)).isEqualTo(limit.burst(5));
    }

    @Test
    void aConcurrencyLimitHasPermitsAndAHoldTime() {
        Limit limit = Limit.concurrent(20);
        assertThat(limit.holdsPermits()).isTrue();
        assertThat(limit.permits()).isEqualTo(20);
        assertThat(limit.capacity()).isEqualTo(20);
        assertThat(limit.holdTime()).isEqualTo(Duration.ofMinutes(1));
        assertThat(LimitKind.reach(limit)).isEqualTo(60_000);
        assertThat(limit.name()).isEqualTo("concurrent");
        assertThat(limit).hasToString("20 concurrent");
        Limit other = limit.hold(Duration.ofMillis(1_500)).named("exports");
        assertThat(other).hasToString("20 concurrent hold=1500ms name=exports").isNotEqualTo(limit);
        assertThat(other.identity()).isEqualTo("exports:H");
        assertThat(limit.hold(Duration.ofHours(1))).isNotEqualTo(limit);
    }

    @Test
    void aConcurrencyLimitRefusesSettingsOfOtherKinds() {
        Limit limit = Limit.concurrent(20);
        List<Runnable> changes = List.of(
                limit::counter,
                () -> limit.burst(5),
                limit::alignedToClock,
                () -> limit.resolution(Duration.ofSeconds(1)),
                limit::countingDenied,
                limit::window,
                () -> Limit.perMinute(5).holdTime(),
                () -> Limit.perMinute(5).hold(Duration.ofSeconds(5)),
                () -> Limit.perMinute(5).retryAfter(Duration.ofSeconds(5)));
        for (Runnable change : changes) {
            assertThatIllegalStateException()
                    .isThrownBy(change::run)
                    .withMessageContaining("expected")
                    .withMessageContaining("for example");
        }
    }

    private static void assertOutOfRange(String name, long tooShortMillis, Function<Duration, Limit> setting) {
        for (Duration time : List.of(
                Duration.ZERO,
                Duration.ofMillis(tooShortMillis),
                Duration.ofMillis(-1),
                Duration.ofDays(1).plusMillis(1),
                Duration.ofDays(900),
                Duration.ofSeconds(2).plusNanos(1))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> setting.apply(time))
                    .withMessageContaining(name + time)
                    .withMessageContaining("for example");
        }
    }

    @Test
    void aRetryTimeIsInRange() {
        Limit limit = Limit.concurrent(20);
        assertOutOfRange("retry time ", 99, limit::retryAfter);
        assertThatNullPointerException()
                .isThrownBy(() -> limit.retryAfter(null))
                .withMessageContaining("for example");
        assertThat(limit.retryAfter()).isEqualTo(Duration.ofSeconds(1));
        assertThat(limit.retryAfter(Limit.SHORTEST_RETRY).retryAfter()).isEqualTo(Limit.SHORTEST_RETRY);
        assertThat(limit.retryAfter(Limit.LONGEST_RETRY).retryAfter()).isEqualTo(Limit.LONGEST_RETRY);
        assertThat(Limit.perMinute(5).retryAfter()).isEqualTo(Duration.ZERO);
    }

    @Test
    void aHoldTimeIsInRange() {
        Limit limit = Limit.concurrent(20);
        assertOutOfRange("hold time ", 999, limit::hold);
        assertThat(limit.hold(Limit.SHORTEST_HOLD).holdTime()).isEqualTo(Limit.SHORTEST_HOLD);
        assertThat(limit.hold(Limit.LONGEST_HOLD).holdTime()).isEqualTo(Limit.LONGEST_HOLD);
        for (long permits : new long[] {0, -1, 1_001}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Limit.concurrent(permits))
                    .withMessageContaining("permits " + permits);
        }
    }

    @Test
    void logsAndBucketsCanBeLeased() {
        Limit bucket = Limit.parse("6000/1m burst=600 leased");
        assertThat(bucket.isLeased()).isTrue();
        assertThat(bucket)
                .hasToString("6000/1m burst=600 leased")
                .isEqualTo(Limit.perMinute(6_000).burst(600).leased())
                .isEqualTo(Limit.perMinute(6_000).leased().burst(600));
        assertThat(bucket.leaseTime()).isEqualTo(Duration.ofMillis(100));
        assertThat(bucket.identity()).isEqualTo(Limit.perMinute(10).burst(20).identity());
        for (Limit other : List.of(
                Limit.perMinute(10).counter(),
                Limit.concurrent(10),
                Limit.perMinute(10).burst(10).countingDenied())) {
            assertThatIllegalStateException()
                    .isThrownBy(other::leased)
                    .withMessageContaining(other.toString())
                    .withMessageContaining("expected a log or token bucket");
        }
        assertThatIllegalArgumentException()
                .isThrownBy(Limit.of(10, Duration.ofMillis(999)).burst(10)::leased)
                .withMessageContaining(
                        "has a window below 1 s, so it cannot be leased: expected a log or token bucket");
    }

    @ParameterizedTest
    @CsvSource({
        "10/10s near=80%, 8",
        "3/1m counter near=50%, 2",
        "10/1s burst=50 counting-denied near=1%, 1",
        "20 concurrent near=100%, 20",
        "999999999999999 monthly near=99%, 990000000000000",
        "100/1m leased near=7% name=x, 7"
    })
    void theMarkIsThatPartOfTheCapacityRoundedUp(String text, long mark) {
        Limit limit = Limit.parse(text);
        assertThat(limit.nearMark()).isEqualTo(mark);
        assertThat(limit).hasToString(text).isEqualTo(Limit.parse(text));
        assertThat(limit.identity())
                .isEqualTo(Limit.parse(text.replaceAll(" near=\\d+%", "")).identity());
        assertThat(limit).isNotEqualTo(Limit.parse(text.replaceAll(" near=\\d+%", "")));
        assertThat(Limit.perMinute(1).nearMark()).isEqualTo(Long.MAX_VALUE);
        assertThat(Limit.perMinute(1).near()).isZero();
        assertThat(Limit.perMinute(1).near(80).near()).isEqualTo(80);
    }
}
