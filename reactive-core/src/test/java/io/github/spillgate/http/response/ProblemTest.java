package io.github.spillgate.http.response;

import static io.github.spillgate.http.response.Decisions.Found.used;
import static io.github.spillgate.http.response.Decisions.Found.violated;
import static io.github.spillgate.http.response.Decisions.neverFits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.entry;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ProblemTest {

    private static final Limit MINUTE = Limit.perMinute(100);
    private static final Limit BURST = Limit.perSecond(10).named("burst");

    private static final String QUOTA_EXCEEDED =
            "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                    + "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"status\":429,";
    private static final String REDUCED_CAPACITY =
            "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
                    + "\"title\":\"Request cannot be satisfied due to temporary server capacity "
                    + "constraints\",\"status\":503,";

    private static String body(Problem problem) {
        return new String(problem.body(), StandardCharsets.UTF_8);
    }

    @Test
    void aDenialNamesTheViolatedPoliciesAndTheWait() {
        Problem problem = Problem.of(List.of(Decisions.of(
                violated("a", BURST, 10, 700), used("a", MINUTE, 20, 60_000), violated("b", MINUTE, 100, 16_001))));
        assertThat(problem.status()).isEqualTo(429);
        assertThat(body(problem))
                .isEqualTo(QUOTA_EXCEEDED + "\"violated-policies\":[\"burst\",\"1m\"],\"retry-after\":17}");
    }

    @Test
    void policiesHaveTheNamesOfTheFields() {
        Decision decision =
                Decisions.of(used("ip", Limit.perMinute(120), 20, 60_000), violated("key", MINUTE, 100, 1_000));
        assertThat(body(Problem.of(List.of(decision)))).contains("\"violated-policies\":[\"1m#2\"]");
        Decision before = Decisions.of(used("ip", Limit.perMinute(120), 20, 60_000));
        Decision after = Decisions.of(violated("key", MINUTE, 100, 1_000));
        assertThat(body(Problem.of(List.of(before, after)))).contains("\"violated-policies\":[\"1m#2\"]");
    }

    @Test
    void aPauseIsNotTheFaultOfTheClient() {
        Limit pause = Limit.pausable();
        Problem paused =
                Problem.of(List.of(Decisions.of(used("a", MINUTE, 20, 60_000), violated("a", pause, 1, 1_500))));
        assertThat(paused.status()).isEqualTo(503);
        assertThat(body(paused)).isEqualTo(REDUCED_CAPACITY + "\"violated-policies\":[],\"retry-after\":2}");
        Problem both =
                Problem.of(List.of(Decisions.of(violated("a", MINUTE, 100, 1_000), violated("a", pause, 1, 1_500))));
        assertThat(both.status()).isEqualTo(429);
    }

    @Test
    void aDenialWithoutARetryTimeHasNoRetryAfterMember() {
        assertThat(body(Problem.of(List.of(neverFits(MINUTE)))))
                .isEqualTo(QUOTA_EXCEEDED + "\"violated-policies\":[\"1m\"]}");
    }

    @Test
    void aPolicyViolatedByAnyDecisionIsNamed() {
        Decision allowed = Decisions.of(used("a", MINUTE, 20, 60_000));
        assertThat(body(Problem.of(List.of(allowed, neverFits(MINUTE))))).contains("\"violated-policies\":[\"1m\"]");
        assertThat(body(Problem.of(List.of(neverFits(MINUTE), allowed)))).contains("\"violated-policies\":[\"1m\"]");
    }

    @Test
    void aDenialWithoutAStoreIsTheServersFault() {
        Problem problem = Problem.of(List.of(Decisions.bySetting(false)));
        assertThat(problem.status()).isEqualTo(503);
        assertThat(body(problem)).isEqualTo(REDUCED_CAPACITY + "\"violated-policies\":[],\"retry-after\":1}");
    }

    @Test
    void aDenialByALimitWeighsMore() {
        Decision bySetting = Decisions.bySetting(false);
        Decision byLimit = Decisions.of(violated("a", MINUTE, 100, 5_000));
        assertThat(Problem.of(List.of(bySetting, byLimit)).status()).isEqualTo(429);
        assertThat(Problem.of(List.of(byLimit, bySetting)).status()).isEqualTo(429);
        Decision allowed = Decisions.of(used("a", MINUTE, 20, 60_000));
        assertThat(Problem.of(List.of(allowed, bySetting)).status()).isEqualTo(503);
        assertThat(Problem.of(List.of(Decisions.bySetting(true), byLimit)).status())
                .isEqualTo(429);
    }

    @Test
    void anUndecidedRequestIsTheServersFault() {
        assertThat(Problem.undecided().status()).isEqualTo(503);
        assertThat(body(Problem.undecided())).isEqualTo(REDUCED_CAPACITY + "\"violated-policies\":[]}");
    }

    @Test
    void anAllowedDecisionIsNoProblem() {
        Decision allowed = Decisions.of(used("secret", MINUTE, 20, 60_000));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Problem.of(List.of(allowed)))
                .withMessageEndingWith("contain no denial: expected at least one")
                .satisfies(e -> assertThat(e.getMessage()).doesNotContain("secret"));
        assertThatIllegalArgumentException().isThrownBy(() -> Problem.of(List.of()));
    }

    @Test
    void aProblemContainsNothingFromTheRequest() {
        assertThat(body(Problem.of(List.of(Decisions.of(violated("<script>secret", MINUTE, 100, 600))))))
                .doesNotContain("secret");
    }

    @Test
    void aProblemIsNotCached() {
        Map<String, String> headers = new LinkedHashMap<>();
        Problem.undecided().writeHeaders(headers::put);
        assertThat(headers)
                .containsExactly(entry("Content-Type", "application/problem+json"), entry("Cache-Control", "no-store"));
    }

    @Test
    void eachCallReturnsItsOwnBytes() {
        Problem problem = Problem.undecided();
        problem.body()[0] = 'x';
        assertThat(body(problem)).startsWith("{");
    }

    @Test
    void anyTextCanBeWritten() {
        StringBuilder json = new StringBuilder();
        Problem.appendString(json, "a\"b\\c/\b\f\n\r\t\u0000\u001f \u007f\u00fc\u2028\ud83d\ude00\ud800~");
        assertThat(json)
                .hasToString("\"a\\\"b\\\\c/\\u0008\\u000c\\u000a\\u000d\\u0009\\u0000\\u001f "
                        + "\\u007f\\u00fc\\u2028\\ud83d\\ude00\\ud800~\"");
    }

    @Test
    void aRequestWithoutAKeyViolatesNoBan() {
        Limit ban = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));
        assertThat(Problem.withoutKey(List.of(Limit.perMinute(1), ban, Limit.pausable()))
                        .body())
                .asString(StandardCharsets.UTF_8)
                .contains("\"violated-policies\":[\"1m\"]");
    }
}
