package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.internal.Text;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
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
        assertThat(limit.algorithm()).isEqualTo(Algorithm.LOG);
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
        "3/366d, 3/366d"
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
        assertThat(Limit.parse("10/1m resolution=50ms"))
                .isEqualTo(Limit.perMinute(10).resolution(Duration.ofMillis(50)));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                " ",
                "100",
                "100/",
                "/1m",
                "100/1",
                "100/1x",
                "100/1M",
                "100 / 1m",
                "1.5/1m",
                "100/1.5m",
                "x/1m",
                "0/1m",
                "-1/1m",
                "100/0m",
                "100/-1m",
                "100/367d",
                "100/1m quick",
                "100/1m log counter",
                "100/1m counter counter",
                "100/1m counter aligned aligned",
                "100/1m aligned",
                "100/1m counting-denied counting-denied",
                "100/1m resolution=1s counter",
                "100/1m resolution=1s resolution=2s",
                "100/1m resolution=",
                "100/1m resolution=2m",
                "100/1m resolution=0ms",
                "100/1m name=",
                "100/1m name=a:b",
                "100/1m name=a name=b",
                "99999999999/1m",
                "20000/1m resolution=1ms",
                "9999999999999999999999/1m",
                "100/1m\nname=\u001b[31m",
                "1/999999999999d"
            })
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
        assertThat(log.reach()).isEqualTo(Duration.ofMillis(60_001));
        assertThat(log.resolution(Duration.ofSeconds(2)).reach()).isEqualTo(Duration.ofSeconds(62));
        assertThat(log.counter().reach()).isEqualTo(Duration.ofMinutes(2));
    }

    @Test
    void gettersReturnTheSettings() {
        Limit limit = Limit.perMinute(10);
        assertThat(limit.isCountingDenied()).isFalse();
        assertThat(limit.countingDenied().isCountingDenied()).isTrue();
        assertThat(limit.counter().isAlignedToClock()).isFalse();
        assertThat(limit.counter().alignedToClock().isAlignedToClock()).isTrue();
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
            limit.resolution(Duration.ofSeconds(1))
        }) {
            assertThat(limit).isNotEqualTo(other);
        }
    }

    @Test
    void thePermitsAreNotPartOfTheIdentityAndEverythingElseIs() {
        Limit limit = Limit.perMinute(10);
        assertThat(Limit.perMinute(20).identity()).isEqualTo(limit.identity());
        assertThat(limit.countingDenied().identity()).isEqualTo(limit.identity());
        assertThat(new String[] {
                    limit.identity(),
                    limit.named("x").identity(),
                    limit.resolution(Duration.ofMillis(2)).identity(),
                    limit.counter().identity(),
                    limit.counter().alignedToClock().identity(),
                    Limit.perHour(10).named("1m").identity()
                })
                .doesNotHaveDuplicates();
    }

    /** Instances of different versions share their counts. */
    @Test
    void theIdentityIsCompatibleWithOtherVersions() {
        assertThat(Limit.perMinute(10).identity()).isEqualTo("1m:L60000.1");
        assertThat(Limit.perMinute(10).resolution(Duration.ofSeconds(1)).identity())
                .isEqualTo("1m:L60000.1000");
        assertThat(Limit.perMinute(10).counter().named("burst").identity()).isEqualTo("burst:C60000");
        assertThat(Limit.perMinute(10).counter().alignedToClock().identity()).isEqualTo("1m:A60000");
    }
}
