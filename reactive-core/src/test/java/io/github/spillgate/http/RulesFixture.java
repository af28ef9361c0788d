package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.LimiterForTests;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;

/** Rules on a local store, requests to them, and a log of what they report. */
abstract class RulesFixture {

    static final Duration LONG = Duration.ofSeconds(30);
    static final KeySource ADDRESS = LimiterForTests.ADDRESS;
    static final KeySource API_KEY = KeySource.header("X-Api-Key");

    @AutoClose
    final RateLimiter limiter =
            RateLimiter.builder("test").store(LocalStore.bounded(10_000)).build();

    /** What the rules have reported. */
    final Queue<String> events = new ConcurrentLinkedQueue<>();

    static Rule.Builder address(String name, long permits) {
        return LimiterForTests.address(name, permits);
    }

    Rules rules(Rule.Builder... rules) {
        return rules(limiter, rules);
    }

    Rules rules(RateLimiter on, Rule.Builder... rules) {
        return rules(on, RuleInstrumentation.none().listener(new EventLog()), rules);
    }

    static Rules rules(RateLimiter on, RuleInstrumentation instrumentation, Rule.Builder... rules) {
        return Rules.of(
                on,
                SentRequest.syntax(),
                Stream.of(rules).map(Rule.Builder::build).toList(),
                instrumentation);
    }

    static Verdict decide(Rules rules) {
        return decide(rules, SentRequest.get("/"));
    }

    static Verdict decide(Rules rules, SentRequest request) {
        return Objects.requireNonNull(rules.decide(request).block(LONG));
    }

    static void assertAllowed(Rules rules, SentRequest request) {
        assertThat(decide(rules, request).isAllowed()).isTrue();
    }

    static void assertDenied(Rules rules, SentRequest request) {
        assertThat(decide(rules, request).isAllowed()).isFalse();
    }

    /** Asserts that a request is denied with this status. */
    static void assertDenied(int status, Verdict verdict) {
        assertThat(verdict.problem().orElseThrow().status()).isEqualTo(status);
    }

    static List<String> names(Verdict verdict) {
        return names(verdict.decision().orElseThrow());
    }

    static List<String> names(Decision decision) {
        return decision.limits().stream().map(usage -> usage.limit().name()).toList();
    }

    /** Adds each report to the events. */
    class EventLog implements RuleListener {

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            assertThat(took).isBetween(Duration.ZERO, LONG);
            events.add(outcome.name().toLowerCase(Locale.ROOT).replace('_', ' ') + " "
                    + match.rule().name());
        }

        @Override
        public void refused(RuleMatch match) {
            events.add("refused " + match.rule().name());
        }

        @Override
        public void lookupFailed(RuleMatch match, RuleLookupException why) {
            Throwable cause = why.getCause();
            events.add("failed " + match.rule().name() + ": " + why.getMessage()
                    + (cause == null ? "" : " by " + cause.getClass().getSimpleName()));
        }

        @Override
        public void undecided(RuleMatch match, Throwable why) {
            events.add("undecided " + match.rule().name() + ": " + why.getMessage());
        }
    }
}
