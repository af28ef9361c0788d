package io.github.spillgate.http.response;

import static io.github.spillgate.http.response.Decisions.AT;
import static io.github.spillgate.http.response.Decisions.Found.used;
import static io.github.spillgate.http.response.Decisions.Found.violated;
import static io.github.spillgate.http.response.Decisions.neverFits;
import static io.github.spillgate.http.response.Decisions.written;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.entry;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class RateLimitHeadersTest {

    private static final RateLimitHeaders ALL = RateLimitHeaders.all();
    private static final RateLimitHeaders DRAFT = ALL.xRateLimit(false).retryAfter(false);
    private static final RateLimitHeaders X = ALL.rateLimit(false).retryAfter(false);
    private static final RateLimitHeaders RETRY_AFTER = ALL.rateLimit(false).xRateLimit(false);

    private static final Limit MINUTE = Limit.perMinute(100);
    private static final Limit BURST = Limit.perSecond(10).named("burst");

    /** The second of the decisions, of which 400 ms have passed. */
    private static final long SECOND = AT / 1_000;

    private static String retryAfter(Decision... decisions) {
        return written(RETRY_AFTER, decisions).getOrDefault("Retry-After", "none");
    }

    private static String rateLimit(Decision... decisions) {
        return written(DRAFT, decisions).getOrDefault("RateLimit", "none");
    }

    private static String policy(Decision... decisions) {
        return written(DRAFT, decisions).getOrDefault("RateLimit-Policy", "none");
    }

    private static String reset(Decision... decisions) {
        return written(X, decisions).getOrDefault("X-RateLimit-Reset", "none");
    }

    @Test
    void anAllowedDecisionHasAllFieldsButRetryAfter() {
        assertThat(written(ALL, Decisions.of(used("a", MINUTE, 20, 60_000))))
                .containsExactly(
                        entry("RateLimit-Policy", "\"1m\";q=100;w=60"),
                        entry("RateLimit", "\"1m\";r=80;t=60"),
                        entry("X-RateLimit-Limit", "100"),
                        entry("X-RateLimit-Remaining", "80"),
                        entry("X-RateLimit-Reset", Long.toString(SECOND + 61)));
    }

    @Test
    void aDenialHasAllFields() {
        assertThat(written(ALL, Decisions.of(used("a", MINUTE, 20, 60_000), violated("a", BURST, 10, 600))))
                .containsExactly(
                        entry("RateLimit-Policy", "\"1m\";q=100;w=60, \"burst\";q=10;w=1"),
                        entry("RateLimit", "\"1m\";r=80;t=60, \"burst\";r=0;t=1"),
                        entry("X-RateLimit-Limit", "10"),
                        entry("X-RateLimit-Remaining", "0"),
                        entry("X-RateLimit-Reset", Long.toString(SECOND + 1)),
                        entry("Retry-After", "1"));
    }

    /** At most 50 in any five seconds are never denied, and that is both the burst and the rate. */
    @Test
    void theQuotaOfABucketIsItsBurstInTheTimeInWhichItIsFilled() {
        Limit bucket = Limit.perSecond(10).burst(50).named("bucket");
        assertThat(written(ALL, Decisions.of(used("a", bucket, 20, 2_000))))
                .containsExactly(
                        entry("RateLimit-Policy", "\"bucket\";q=50;w=5"),
                        entry("RateLimit", "\"bucket\";r=30;t=2"),
                        entry("X-RateLimit-Limit", "50"),
                        entry("X-RateLimit-Remaining", "30"),
                        entry("X-RateLimit-Reset", Long.toString(SECOND + 3)));
        assertThat(rateLimit(Decisions.of(used("a", bucket, 0, 0)))).isEqualTo("\"bucket\";r=50;t=5");
        assertThat(policy(Decisions.of(used("a", Limit.perSecond(10).burst(12).named("b"), 0, 0))))
                .isEqualTo("\"b\";q=12");
    }

    /** The window of a day is 24 hours, and the fields are exact on one that is longer because clocks are set back. */
    @Test
    void theFieldsOfACalendarQuotaAreThoseOfItsBoundary() {
        Limit quota = Limit.daily(50).named("plan");
        assertThat(written(ALL, Decisions.of(violated("a", quota, 50, 89_000_000))))
                .containsExactly(
                        entry("RateLimit-Policy", "\"plan\";q=50;w=86400"),
                        entry("RateLimit", "\"plan\";r=0;t=89000"),
                        entry("X-RateLimit-Limit", "50"),
                        entry("X-RateLimit-Remaining", "0"),
                        entry("X-RateLimit-Reset", Long.toString(SECOND + 89_001)),
                        entry("Retry-After", "89000"));
        assertThat(rateLimit(Decisions.of(used("a", quota, 20, 89_000_000)))).isEqualTo("\"plan\";r=30;t=89000");
        assertThat(reset(Decisions.of(used("a", quota, 0, 0))))
                .isEqualTo(Long.toString((SECOND / 86_400 + 1) * 86_400));
        assertThat(policy(Decisions.of(used("a", Limit.monthly(5), 0, 0)))).isEqualTo("\"monthly\";q=5;w=2678400");
    }

    /** It has no window, and a client cannot plan with it. */
    @Test
    void aConcurrencyLimitHasOnlyRetryAfter() {
        Limit twenty = Limit.concurrent(20);
        assertThat(written(ALL, Decisions.of(violated("a", twenty, 20, 1_000))))
                .containsExactly(entry("Retry-After", "1"));
        assertThat(written(ALL, Decisions.of(used("a", twenty, 3, 60_000)))).isEmpty();
        assertThat(written(ALL, Decisions.of(used("a", MINUTE, 20, 60_000), violated("a", twenty, 20, 1_000))))
                .containsExactly(
                        entry("RateLimit-Policy", "\"1m\";q=100;w=60"),
                        entry("RateLimit", "\"1m\";r=80;t=60"),
                        entry("X-RateLimit-Limit", "100"),
                        entry("X-RateLimit-Remaining", "80"),
                        entry("X-RateLimit-Reset", Long.toString(SECOND + 61)),
                        entry("Retry-After", "1"));
        assertThat(Problem.of(List.of(Decisions.of(violated("a", twenty, 20, 1_000)))))
                .hasToString("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                        + "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\","
                        + "\"status\":429,\"violated-policies\":[\"concurrent\"],\"retry-after\":1}");
    }

    @Test
    void keysAreNotWritten() {
        assertThat(written(ALL, Decisions.of(violated("secret", MINUTE, 100, 600)))
                        .toString())
                .doesNotContain("secret");
    }

    // Seconds.

    @Test
    void secondsAreRoundedUp() {
        assertThat(retryAfter(Decisions.of(violated("a", MINUTE, 100, 1)))).isEqualTo("1");
        assertThat(retryAfter(Decisions.of(violated("a", MINUTE, 100, 999)))).isEqualTo("1");
        assertThat(retryAfter(Decisions.of(violated("a", MINUTE, 100, 1_000)))).isEqualTo("1");
        assertThat(retryAfter(Decisions.of(violated("a", MINUTE, 100, 1_001)))).isEqualTo("2");
        assertThat(rateLimit(Decisions.of(violated("a", MINUTE, 100, 1_000)))).isEqualTo("\"1m\";r=0;t=1");
        assertThat(rateLimit(Decisions.of(violated("a", MINUTE, 100, 1_001)))).isEqualTo("\"1m\";r=0;t=2");
        assertThat(rateLimit(Decisions.of(used("a", MINUTE, 1, 1)))).isEqualTo("\"1m\";r=99;t=1");
    }

    @Test
    void theSecondOfTheEpochIsRoundedUp() {
        assertThat(reset(Decisions.of(violated("a", MINUTE, 100, 599)))).isEqualTo(Long.toString(SECOND + 1));
        assertThat(reset(Decisions.of(violated("a", MINUTE, 100, 600)))).isEqualTo(Long.toString(SECOND + 1));
        assertThat(reset(Decisions.of(violated("a", MINUTE, 100, 601)))).isEqualTo(Long.toString(SECOND + 2));
    }

    @Test
    void retryAfterIsNeverZeroBecauseThatIsALoop() {
        assertThat(retryAfter(Decisions.of(violated("a", MINUTE, 100, 0)))).isEqualTo("1");
    }

    @Test
    void aViolatedLimitResetsAtRetryAfterAndOthersWhenUnused() {
        Decision denied = Decisions.of(violated("a", BURST, 10, 700), used("a", MINUTE, 50, 42_001));
        assertThat(rateLimit(denied)).isEqualTo("\"burst\";r=0;t=1, \"1m\";r=50;t=43");
        assertThat(retryAfter(denied)).isEqualTo("1");
    }

    /** A hit of a log leaves when the end of its slot is one window old. */
    @Test
    void theEffectiveWindowIsNeverLongerThanTheWindow() {
        assertThat(rateLimit(Decisions.of(used("a", MINUTE, 1, 60_001)))).isEqualTo("\"1m\";r=99;t=60");
        assertThat(rateLimit(Decisions.of(used("a", MINUTE, 100, 60_001)))).isEqualTo("\"1m\";r=0;t=60");
        assertThat(rateLimit(Decisions.of(violated("a", MINUTE, 100, 60_001)))).isEqualTo("\"1m\";r=0;t=60");
        assertThat(rateLimit(Decisions.of(used("a", MINUTE.counter(), 1, 119_000))))
                .isEqualTo("\"1m\";r=99;t=60");
        assertThat(rateLimit(Decisions.of(used("a", Limit.of(3, Duration.ofMillis(1_500)), 1, 1_501))))
                .isEqualTo("\"1500ms\";r=2;t=2");
    }

    @Test
    void aDeniedClientGetsTheWholeWait() {
        Decision denied = Decisions.of(violated("a", MINUTE, 100, 60_601));
        assertThat(retryAfter(denied)).isEqualTo("61");
        assertThat(reset(denied)).isEqualTo(Long.toString(SECOND + 62));
        assertThat(reset(Decisions.of(used("a", MINUTE, 100, 60_601)))).isEqualTo(Long.toString(SECOND + 62));
        assertThat(reset(Decisions.of(used("a", MINUTE.counter(), 100, 119_000))))
                .isEqualTo(Long.toString(SECOND + 120));
    }

    @Test
    void aClientWithPermitsGetsAWindowAtMost() {
        assertThat(reset(Decisions.of(used("a", MINUTE, 99, 60_601)))).isEqualTo(Long.toString(SECOND + 61));
        assertThat(reset(Decisions.of(used("a", MINUTE.counter(), 1, 119_000)))).isEqualTo(Long.toString(SECOND + 61));
    }

    @Test
    void anUnusedLimitResetsAfterAWindow() {
        assertThat(rateLimit(Decisions.of(used("a", MINUTE, 0, 0)))).isEqualTo("\"1m\";r=100;t=60");
        assertThat(reset(Decisions.of(used("a", MINUTE, 0, 0)))).isEqualTo(Long.toString(SECOND + 61));
    }

    @Test
    void timesInThePastAreNow() {
        assertThat(rateLimit(Decisions.of(violated("a", MINUTE, 100, -5_000)))).isEqualTo("\"1m\";r=0;t=1");
        assertThat(retryAfter(Decisions.of(violated("a", MINUTE, 100, -5_000)))).isEqualTo("1");
        assertThat(reset(Decisions.of(violated("a", MINUTE, 100, -5_000)))).isEqualTo(Long.toString(SECOND + 1));
        assertThat(rateLimit(Decisions.of(used("a", MINUTE, 7, -5_000)))).isEqualTo("\"1m\";r=93;t=60");
    }

    @Test
    void severalDenialsHoldForTheLongest() {
        Decision denied = Decisions.of(violated("a", BURST, 10, 500), violated("a", MINUTE, 100, 20_500));
        assertThat(retryAfter(denied)).isEqualTo("21");
        assertThat(reset(denied)).isEqualTo(Long.toString(SECOND + 21));
        assertThat(retryAfter(
                        Decisions.of(violated("a", MINUTE, 100, 20_500)),
                        Decisions.of(violated("b", MINUTE, 100, 3_000))))
                .isEqualTo("21");
        assertThat(retryAfter(
                        Decisions.of(violated("b", MINUTE, 100, 3_000)),
                        Decisions.of(violated("a", MINUTE, 100, 20_500)),
                        Decisions.of(violated("c", MINUTE, 100, 1_000))))
                .isEqualTo("21");
    }

    @Test
    void aDenialWithoutARetryTimeHasNoRetryAfter() {
        Decision never = neverFits(MINUTE);
        assertThat(written(ALL, never)).containsExactly(entry("RateLimit-Policy", "\"1m\";q=100;w=60"));
        assertThat(written(RETRY_AFTER, never, Decisions.of(violated("b", BURST, 10, 500))))
                .isEmpty();
        assertThat(written(RETRY_AFTER, Decisions.of(violated("b", BURST, 10, 500)), never))
                .isEmpty();
    }

    @Test
    void anAllowedDecisionBesideADenialChangesNoWait() {
        assertThat(retryAfter(Decisions.of(used("a", MINUTE, 1, 60_000)), Decisions.of(violated("a", BURST, 10, 500))))
                .isEqualTo("1");
    }

    // Settings instead of limits.

    @Test
    void aDecisionWithoutLimitsWritesNone() {
        assertThat(written(ALL)).isEmpty();
        assertThat(written(ALL, Decisions.bySetting(true))).isEmpty();
        assertThat(written(ALL, Decisions.bySetting(false))).containsExactly(entry("Retry-After", "1"));
    }

    // Policies.

    @Test
    void onlyWindowsOfWholeSecondsAreWritten() {
        Limit quarter = Limit.of(5, Duration.ofMillis(250));
        Limit oneAndAHalf = Limit.of(5, Duration.ofMillis(1_500));
        Limit days = Limit.of(5, Duration.ofDays(366));
        assertThat(policy(Decisions.of(
                        used("a", quarter, 1, 250), used("a", oneAndAHalf, 1, 1_500), used("a", days, 1, 1_500))))
                .isEqualTo("\"250ms\";q=5, \"1500ms\";q=5, \"366d\";q=5;w=31622400");
    }

    @Test
    void numbersAreCappedAtTheFieldMaximum() {
        Limit large = Limit.counter(Limit.MOST_COUNTER_PERMITS, Duration.ofDays(1));
        Decision decision = Decisions.of(used("a", large, 0, 0));
        assertThat(policy(decision)).isEqualTo("\"24h\";q=999999999999999;w=86400");
        assertThat(rateLimit(decision)).isEqualTo("\"24h\";r=999999999999999;t=86400");
        assertThat(written(X, decision)).containsEntry("X-RateLimit-Limit", "1000000000000000");
    }

    @Test
    void usageAboveTheLimitHasZeroRemaining() {
        assertThat(rateLimit(Decisions.of(violated("a", MINUTE, 500, 1_000)))).isEqualTo("\"1m\";r=0;t=1");
    }

    @Test
    void oneLimitOnSeveralKeysIsOnePolicyOfItsTightestKey() {
        Decision decision = Decisions.of(
                used("a", MINUTE, 20, 60_000),
                used("b", Limit.perMinute(100), 90, 30_000),
                used("c", MINUTE, 5, 60_000));
        assertThat(policy(decision)).isEqualTo("\"1m\";q=100;w=60");
        assertThat(rateLimit(decision)).isEqualTo("\"1m\";r=10;t=30");
    }

    @Test
    void theKeyThatDeniedIsTheTightest() {
        Decision decision = Decisions.of(
                used("a", MINUTE, 100, 60_000), violated("b", MINUTE, 95, 2_000), violated("c", MINUTE, 96, 1_000));
        assertThat(rateLimit(decision)).isEqualTo("\"1m\";r=5;t=2");
        assertThat(written(X, decision)).containsEntry("X-RateLimit-Remaining", "5");
    }

    @Test
    void differentLimitsOfOneNameGetNumbers() {
        Decision decision = Decisions.of(
                used("ip", Limit.perMinute(120), 20, 60_000),
                used("key", MINUTE, 20, 60_000),
                used("tenant", Limit.perMinute(5_000).counter(), 20, 60_000),
                used("user", MINUTE, 30, 60_000));
        assertThat(policy(decision)).isEqualTo("\"1m\";q=120;w=60, \"1m#2\";q=100;w=60, \"1m#3\";q=5000;w=60");
        assertThat(rateLimit(decision)).isEqualTo("\"1m\";r=100;t=60, \"1m#2\";r=70;t=60, \"1m#3\";r=4980;t=60");
    }

    @Test
    void severalDecisionsAreWrittenTogether() {
        Decision before = Decisions.of(used("ip", Limit.perMinute(120), 20, 60_000));
        Decision after = Decisions.of(used("user", MINUTE, 95, 30_000), used("user", BURST, 1, 1_000));
        assertThat(written(ALL, before, after))
                .containsExactly(
                        entry("RateLimit-Policy", "\"1m\";q=120;w=60, \"1m#2\";q=100;w=60, \"burst\";q=10;w=1"),
                        entry("RateLimit", "\"1m\";r=100;t=60, \"1m#2\";r=5;t=30, \"burst\";r=9;t=1"),
                        entry("X-RateLimit-Limit", "100"),
                        entry("X-RateLimit-Remaining", "5"),
                        entry("X-RateLimit-Reset", Long.toString(SECOND + 31)));
    }

    @Test
    void aKnownUsageIsWrittenBesideADecisionWithoutUsage() {
        Decision allowed = Decisions.of(used("a", MINUTE, 20, 60_000));
        assertThat(rateLimit(allowed, neverFits(MINUTE))).isEqualTo("\"1m\";r=80;t=60");
        assertThat(rateLimit(neverFits(MINUTE), allowed)).isEqualTo("\"1m\";r=80;t=60");
    }

    @Test
    void timesAreCountedFromTheDecisionThatTheyBelongTo() {
        Decision later = Decisions.of(AT + 10_000, used("a", MINUTE, 20, 60_000));
        assertThat(rateLimit(later)).isEqualTo("\"1m\";r=80;t=50");
    }

    // The tightest.

    @Test
    void theLimitThatRunsOutFirstIsTheTightest() {
        assertThat(written(X, Decisions.of(used("a", MINUTE, 95, 60_000), used("a", BURST, 1, 1_000))))
                .containsEntry("X-RateLimit-Limit", "100")
                .containsEntry("X-RateLimit-Remaining", "5");
        assertThat(written(X, Decisions.of(used("a", MINUTE, 20, 60_000), used("a", BURST, 1, 1_000))))
                .containsEntry("X-RateLimit-Limit", "10")
                .containsEntry("X-RateLimit-Remaining", "9");
    }

    @Test
    void ofTwoEquallyTightLimitsTheLongerWindowApplies() {
        assertThat(written(X, Decisions.of(used("a", BURST, 1, 1_000), used("a", MINUTE, 91, 60_000))))
                .containsEntry("X-RateLimit-Limit", "100");
        assertThat(written(X, Decisions.of(used("a", MINUTE, 91, 60_000), used("a", BURST, 1, 1_000))))
                .containsEntry("X-RateLimit-Limit", "100");
    }

    // Settings.

    @Test
    void eachGroupCanBeSwitchedOff() {
        Decision denied = Decisions.of(violated("a", BURST, 10, 500));
        assertThat(written(ALL.rateLimit(false), denied))
                .containsOnlyKeys("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After");
        assertThat(written(ALL.xRateLimit(false), denied))
                .containsOnlyKeys("RateLimit-Policy", "RateLimit", "Retry-After");
        assertThat(written(ALL.retryAfter(false), denied))
                .containsOnlyKeys(
                        "RateLimit-Policy",
                        "RateLimit",
                        "X-RateLimit-Limit",
                        "X-RateLimit-Remaining",
                        "X-RateLimit-Reset");
        assertThat(written(DRAFT.rateLimit(false), denied)).isEmpty();
        assertThat(written(DRAFT.rateLimit(false).rateLimit(true), denied))
                .containsOnlyKeys("RateLimit-Policy", "RateLimit");
    }

    @Test
    void theWrittenFieldsAreExposed() {
        Decision denied = Decisions.of(violated("a", BURST, 10, 500));
        for (boolean rateLimit : new boolean[] {true, false}) {
            for (boolean xRateLimit : new boolean[] {true, false}) {
                for (boolean retryAfter : new boolean[] {true, false}) {
                    RateLimitHeaders headers =
                            ALL.rateLimit(rateLimit).xRateLimit(xRateLimit).retryAfter(retryAfter);
                    assertThat(written(headers, denied).keySet()).containsExactlyElementsOf(headers.names());
                }
            }
        }
        assertThat(ALL.names())
                .containsExactly(
                        "RateLimit-Policy",
                        "RateLimit",
                        "X-RateLimit-Limit",
                        "X-RateLimit-Remaining",
                        "X-RateLimit-Reset",
                        "Retry-After");
    }

    @Test
    void settingsAreShownInLogs() {
        assertThat(DRAFT).hasToString("RateLimitHeaders[RateLimit-Policy, RateLimit]");
    }
}
