package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenMissing;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.util.context.Context;

class RuleInstrumentationTest extends RulesFixture {

    // Listeners.

    @Test
    void aListenerThatThrowsDoesNotAffectOtherListeners() {
        RuleInstrumentation all = listeners().listener(new ThrowingListener()).listener(new NamedLog("last"));
        Rule.Builder rule = Rule.named("a").limit(Limit.perMinute(5));
        assertThat(decide(rule.key(KeySource.constant("k")), all).isAllowed()).isTrue();
        assertThat(events).containsExactly("first decided", "last decided");

        events.clear();
        decide(rule.key(API_KEY).whenMissing(WhenMissing.DENY), all);
        assertThat(events).containsExactly("first refused", "last refused");

        events.clear();
        decide(rule.key(match -> Mono.error(new IllegalStateException("broken"))), all);
        assertThat(events).containsExactly("first undecided", "last undecided");
    }

    @Test
    void aCopyWithAnotherListenerDoesNotChangeTheOriginal() {
        RuleInstrumentation original = listeners();
        RuleInstrumentation copy = original.listener(new NamedLog("late"));
        Rule.Builder rule = Rule.named("a").key(KeySource.constant("k")).limit(Limit.perMinute(5));
        decide(rule, original);
        assertThat(events).containsExactly("first decided");

        events.clear();
        decide(rule, copy);
        assertThat(events).containsExactly("first decided", "late decided");
    }

    @Test
    void nullIsRejected() {
        assertThatNullPointerException()
                .isThrownBy(() -> listeners().listener(null))
                .withMessage("listener is null: expected one, for example RuleMetrics.of(registry)");
        assertThatNullPointerException()
                .isThrownBy(() -> listeners().tracer(null))
                .withMessage("tracer is null: expected one, for example RuleObservations.of(registry)");
        assertThatNullPointerException()
                .isThrownBy(() -> Rules.of(limiter, SentRequest.syntax(), List.of(), null))
                .withMessage("instrumentation is null: expected one, for example RuleInstrumentation.none()");
    }

    // Tracers.

    @Test
    void eachSpanGetsTheEventsOfItsDecisionAndThenItsEnd() {
        RuleInstrumentation all = listeners()
                .listener(new NamedLog("second"))
                .tracer(tracer("first"))
                .tracer(tracer("last"));
        Rule.Builder rule = Rule.named("a").limit(Limit.perMinute(5));
        assertThat(decide(rule.key(KeySource.constant("k")), all).isAllowed()).isTrue();
        assertThat(events)
                .containsExactly(
                        "first decided",
                        "second decided",
                        "span of first decided",
                        "span of last decided",
                        "span of first ended",
                        "span of last ended");

        events.clear();
        decide(rule.key(API_KEY).whenMissing(WhenMissing.DENY), all);
        assertThat(events).endsWith("span of last refused", "span of first ended", "span of last ended");
        assertThat(events).contains("span of first refused");

        events.clear();
        decide(rule.key(match -> Mono.error(new IllegalStateException("broken"))), all);
        assertThat(events).endsWith("span of last undecided", "span of first ended", "span of last ended");
        assertThat(events).contains("span of first undecided");
    }

    @Test
    void failedLookupsAreReportedToListenersAndSpansBeforeTheDecision() {
        RuleInstrumentation all = listeners()
                .listener(new ThrowingListener())
                .listener(new NamedLog("last"))
                .tracer(tracer("first"))
                .tracer(tracer("last"));
        Rule.Builder rule = Rule.named("a")
                .key(KeySource.constant("k"))
                .limit(Limit.perMinute(5))
                .limits((match, key) -> Mono.error(new IllegalStateException("broken")));
        assertThat(decide(rule, all).isAllowed()).isTrue();
        assertThat(events)
                .startsWith(
                        "first failed", "last failed", "span of first failed", "span of last failed", "first decided");
    }

    @Test
    void lookupsSeeTheContextEntriesOfAllSpans() {
        List<String> seen = new ArrayList<>();
        KeySource key = match -> Mono.deferContextual(context -> {
            for (String name : List.of("first", "last", "own")) {
                seen.add(name + " " + context.getOrDefault(name, "nowhere"));
            }
            return Mono.just("k");
        });
        Rule.Builder rule = Rule.named("a").key(key).limit(Limit.perMinute(5));
        RuleInstrumentation traced = RuleInstrumentation.none()
                .tracer(tracer("first"))
                .tracer((matches, context) -> new ThrowingSpan())
                .tracer(tracer("last"));
        rules(limiter, traced, rule)
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("own", "here"))
                .block(LONG);
        assertThat(seen).containsExactly("first here", "last here", "own here");

        seen.clear();
        rules(limiter, listeners(), rule)
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("own", "here"))
                .block(LONG);
        assertThat(seen).containsExactly("first nowhere", "last nowhere", "own here");
    }

    @Test
    void aTracerOrSpanThatThrowsDoesNotAffectOthers() {
        List<String> dropped = new ArrayList<>();
        Hooks.onErrorDropped(error -> dropped.add(error.getMessage()));
        try {
            RuleInstrumentation all = listeners()
                    .listener(new ThrowingListener())
                    .listener(new ThrowingListener())
                    .listener(new NamedLog("last"))
                    .tracer(tracer("first"))
                    .tracer((matches, context) -> {
                        throw new IllegalStateException("start");
                    })
                    .tracer((matches, context) -> new ThrowingSpan())
                    .tracer(tracer("last"));
            Rule.Builder rule = Rule.named("a").key(KeySource.constant("k")).limit(Limit.perMinute(5));
            assertThat(decide(rule, all).isAllowed()).isTrue();
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(events)
                .containsExactly(
                        "first decided",
                        "last decided",
                        "span of first decided",
                        "span of last decided",
                        "span of first ended",
                        "span of last ended");
        assertThat(dropped).containsExactly("start", "context", "decided", "decided", "decided by a span", "ended");
    }

    @Test
    void eachSpanIsCancelledOnce() {
        RuleInstrumentation all = listeners().tracer(tracer("first")).tracer(tracer("last"));
        Rule.Builder rule = Rule.named("a")
                .key(match -> Mono.never())
                .timeout(Duration.ofMinutes(1))
                .limit(Limit.perMinute(5));
        Disposable subscriber =
                rules(limiter, all, rule).decide(SentRequest.get("/")).subscribe();
        assertThat(events).isEmpty();
        subscriber.dispose();
        subscriber.dispose();
        assertThat(events).containsExactly("span of first cancelled", "span of last cancelled");
    }

    private Verdict decide(Rule.Builder rule, RuleInstrumentation instrumentation) {
        return decide(rules(limiter, instrumentation, rule));
    }

    private RuleInstrumentation listeners() {
        return RuleInstrumentation.none().listener(new NamedLog("first"));
    }

    private RuleTracer tracer(String name) {
        return (matches, context) -> {
            assertThat(matches).extracting(match -> match.rule().name()).containsExactly("a");
            return new LoggingSpan(name);
        };
    }

    private class NamedLog implements RuleListener {

        private final String name;

        NamedLog(String name) {
            this.name = name;
        }

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            note("decided");
        }

        @Override
        public void refused(RuleMatch match) {
            note("refused");
        }

        @Override
        public void undecided(RuleMatch match, Throwable why) {
            note("undecided");
        }

        @Override
        public void lookupFailed(RuleMatch match, RuleLookupException why) {
            note("failed");
        }

        void note(String event) {
            events.add(name + " " + event);
        }
    }

    private final class LoggingSpan extends NamedLog implements RuleTracer.Span {

        private final String tracer;

        LoggingSpan(String tracer) {
            super("span of " + tracer);
            this.tracer = tracer;
        }

        @Override
        public Context context(Context context) {
            return context.put(tracer, "here");
        }

        @Override
        public void ended() {
            events.add("span of " + tracer + " ended");
        }

        @Override
        public void cancelled() {
            events.add("span of " + tracer + " cancelled");
        }
    }

    /** Fails each report. */
    private class ThrowingListener extends NamedLog {

        ThrowingListener() {
            super("listener");
        }

        @Override
        void note(String event) {
            throw new IllegalStateException(event);
        }
    }

    private final class ThrowingSpan extends ThrowingListener implements RuleTracer.Span {

        @Override
        void note(String event) {
            throw new IllegalStateException(event + " by a span");
        }

        @Override
        public Context context(Context context) {
            throw new IllegalStateException("context");
        }

        @Override
        public void ended() {
            throw new IllegalStateException("ended");
        }

        @Override
        public void cancelled() {
            throw new IllegalStateException("cancelled");
        }
    }
}
