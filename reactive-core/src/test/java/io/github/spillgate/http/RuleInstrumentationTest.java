package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.local.LocalStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.util.context.Context;

class RuleInstrumentationTest {

    private final RateLimiter limiter =
            RateLimiter.builder("test").store(LocalStore.bounded(100)).build();
    private final List<String> events = new ArrayList<>();

    @AfterEach
    void close() {
        limiter.close();
    }

    // Listeners.

    @Test
    void aListenerThatThrowsDoesNotAffectOtherListeners() {
        RuleInstrumentation all = listeners().listener(new ThrowingListener()).listener(new EventLog("last"));
        Rule.Builder rule = Rule.named("a").limit(Limit.perMinute(5));
        assertThat(decide(rule.key(KeySource.constant("k")), all).isAllowed()).isTrue();
        assertThat(events).containsExactly("first decided", "last decided");

        events.clear();
        decide(rule.key(KeySource.header("X-Api-Key")).whenMissing(WhenMissing.DENY), all);
        assertThat(events).containsExactly("first refused", "last refused");

        events.clear();
        decide(rule.key(match -> Mono.error(new IllegalStateException("broken"))), all);
        assertThat(events).containsExactly("first undecided", "last undecided");
    }

    @Test
    void aCopyWithAnotherListenerDoesNotChangeTheOriginal() {
        RuleInstrumentation original = listeners();
        RuleInstrumentation copy = original.listener(new EventLog("late"));
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
                .isThrownBy(() -> Rules.of(limiter, SentRequest.syntax(), List.of(), (RuleInstrumentation) null))
                .withMessage("instrumentation is null: expected one, for example RuleInstrumentation.none()");
    }

    // Tracers.

    @Test
    void eachSpanGetsTheEventsOfItsDecisionAndThenItsEnd() {
        RuleInstrumentation all = listeners()
                .listener(new EventLog("second"))
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
        decide(rule.key(KeySource.header("X-Api-Key")).whenMissing(WhenMissing.DENY), all);
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
                .listener(new EventLog("last"))
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
        rules(rule, traced)
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("own", "here"))
                .block(Duration.ofSeconds(30));
        assertThat(seen).containsExactly("first here", "last here", "own here");

        seen.clear();
        rules(rule, listeners())
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("own", "here"))
                .block(Duration.ofSeconds(30));
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
                    .listener(new EventLog("last"))
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
        Disposable subscriber = rules(rule, all).decide(SentRequest.get("/")).subscribe();
        assertThat(events).isEmpty();
        subscriber.dispose();
        subscriber.dispose();
        assertThat(events).containsExactly("span of first cancelled", "span of last cancelled");
    }

    private Verdict decide(Rule.Builder rule, RuleInstrumentation instrumentation) {
        return rules(rule, instrumentation).decide(SentRequest.get("/")).block(Duration.ofSeconds(30));
    }

    private Rules rules(Rule.Builder rule, RuleInstrumentation instrumentation) {
        return Rules.of(limiter, SentRequest.syntax(), List.of(rule.build()), instrumentation);
    }

    private RuleInstrumentation listeners() {
        return RuleInstrumentation.none().listener(new EventLog("first"));
    }

    private RuleTracer tracer(String name) {
        return (matches, context) -> {
            assertThat(matches).extracting(match -> match.rule().name()).containsExactly("a");
            return new LoggingSpan(name);
        };
    }

    private class EventLog implements RuleListener {

        private final String name;

        EventLog(String name) {
            this.name = name;
        }

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            events.add(name + " decided");
        }

        @Override
        public void refused(RuleMatch match) {
            events.add(name + " refused");
        }

        @Override
        public void undecided(RuleMatch match, Throwable why) {
            events.add(name + " undecided");
        }

        @Override
        public void lookupFailed(RuleMatch match, RuleLookupException why) {
            events.add(name + " failed");
        }
    }

    private final class LoggingSpan extends EventLog implements RuleTracer.Span {

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

    private static final class ThrowingListener implements RuleListener {

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            throw new IllegalStateException("decided");
        }

        @Override
        public void refused(RuleMatch match) {
            throw new IllegalStateException("refused");
        }

        @Override
        public void lookupFailed(RuleMatch match, RuleLookupException why) {
            throw new IllegalStateException("failed");
        }

        @Override
        public void undecided(RuleMatch match, Throwable why) {
            throw new IllegalStateException("undecided");
        }
    }

    private static final class ThrowingSpan implements RuleTracer.Span {

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            throw new IllegalStateException("decided by a span");
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
