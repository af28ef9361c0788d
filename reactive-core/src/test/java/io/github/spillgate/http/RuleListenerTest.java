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
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

class RuleListenerTest {

    private final RateLimiter limiter =
            RateLimiter.builder("test").store(LocalStore.bounded(100)).build();
    private final List<String> heard = new ArrayList<>();

    @AfterEach
    void close() {
        limiter.close();
    }

    @Test
    void oneThatThrowsKeepsNoOtherFromHearing() {
        RuleListener all = RuleListener.all(List.of(named("first"), new Throwing(), named("last")));
        Rule.Builder rule = Rule.named("a").limit(Limit.perMinute(5));
        assertThat(decide(rule.key(KeySource.constant("k")), all).isAllowed()).isTrue();
        assertThat(heard).containsExactly("first decided", "last decided");

        heard.clear();
        decide(rule.key(KeySource.header("X-Api-Key")).whenMissing(WhenMissing.DENY), all);
        assertThat(heard).containsExactly("first refused", "last refused");

        heard.clear();
        decide(rule.key(match -> Mono.error(new IllegalStateException("broken"))), all);
        assertThat(heard).containsExactly("first undecided", "last undecided");
    }

    @Test
    void thoseWhoComeLaterAreNotAmongThem() {
        List<RuleListener> listeners = new ArrayList<>(List.of(named("first")));
        RuleListener all = RuleListener.all(listeners);
        listeners.add(named("late"));
        decide(Rule.named("a").key(KeySource.constant("k")).limit(Limit.perMinute(5)), all);
        assertThat(heard).containsExactly("first decided");
    }

    @Test
    void nobodyIsNoListener() {
        assertThatNullPointerException()
                .isThrownBy(() -> RuleListener.all(Arrays.asList(named("first"), null)))
                .withMessage("a listener is null: expected one");
    }

    // Those who follow a decision.

    @Test
    void eachWhoWatchesHearsAllOfItAndThenHowItEnds() {
        RuleListener all = RuleListener.all(List.of(watching("first"), named("second"), watching("last")));
        Rule.Builder rule = Rule.named("a").limit(Limit.perMinute(5));
        assertThat(decide(rule.key(KeySource.constant("k")), all).isAllowed()).isTrue();
        assertThat(heard)
                .containsExactly(
                        "first decided",
                        "second decided",
                        "last decided",
                        "watch of first decided",
                        "watch of last decided",
                        "watch of first ended",
                        "watch of last ended");

        heard.clear();
        decide(rule.key(KeySource.header("X-Api-Key")).whenMissing(WhenMissing.DENY), all);
        assertThat(heard).endsWith("watch of last refused", "watch of first ended", "watch of last ended");
        assertThat(heard).contains("watch of first refused");

        heard.clear();
        decide(rule.key(match -> Mono.error(new IllegalStateException("broken"))), all);
        assertThat(heard).endsWith("watch of last undecided", "watch of first ended", "watch of last ended");
        assertThat(heard).contains("watch of first undecided");
    }

    @Test
    void listenersAndWatchesHearOfLookupsThatFailBeforeTheDecision() {
        RuleListener all = RuleListener.all(List.of(watching("first"), new Throwing(), watching("last")));
        Rule.Builder rule = Rule.named("a")
                .key(KeySource.constant("k"))
                .limit(Limit.perMinute(5))
                .limits((match, key) -> Mono.error(new IllegalStateException("broken")));
        assertThat(decide(rule, all).isAllowed()).isTrue();
        assertThat(heard)
                .startsWith(
                        "first failed",
                        "last failed",
                        "watch of first failed",
                        "watch of last failed",
                        "first decided");
    }

    @Test
    void whatIsAskedOnTheWaySeesWhatAllWhoWatchHavePutIntoItsContext() {
        List<String> seen = new ArrayList<>();
        KeySource key = match -> Mono.deferContextual(context -> {
            for (String name : List.of("first", "last", "own")) {
                seen.add(name + " " + context.getOrDefault(name, "nowhere"));
            }
            return Mono.just("k");
        });
        Rule.Builder rule = Rule.named("a").key(key).limit(Limit.perMinute(5));
        rules(rule, RuleListener.all(List.of(watching("first"), new ThrowingWatch(true), watching("last"))))
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("own", "here"))
                .block(Duration.ofSeconds(30));
        assertThat(seen).containsExactly("first here", "last here", "own here");

        seen.clear();
        rules(rule, RuleListener.all(List.of(named("first"))))
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("own", "here"))
                .block(Duration.ofSeconds(30));
        assertThat(seen).containsExactly("first nowhere", "last nowhere", "own here");
    }

    @Test
    void oneWhoThrowsWhenHeIsToWatchKeepsNoOtherFromWatching() {
        List<String> dropped = new ArrayList<>();
        Hooks.onErrorDropped(error -> dropped.add(error.getMessage()));
        try {
            RuleListener all = RuleListener.all(
                    List.of(watching("first"), new ThrowingWatch(false), new ThrowingWatch(true), watching("last")));
            Rule.Builder rule = Rule.named("a").key(KeySource.constant("k")).limit(Limit.perMinute(5));
            assertThat(decide(rule, all).isAllowed()).isTrue();
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(heard)
                .containsExactly(
                        "first decided",
                        "last decided",
                        "watch of first decided",
                        "watch of last decided",
                        "watch of first ended",
                        "watch of last ended");
        assertThat(dropped).containsExactly("watch", "context", "decided", "decided", "decided by a watch", "ended");
    }

    @Test
    void eachWhoWatchesHearsOnceThatNobodyWaitsAnyMore() {
        RuleListener all = RuleListener.all(List.of(watching("first"), watching("last")));
        Rule.Builder rule = Rule.named("a").key(match -> Mono.never()).limit(Limit.perMinute(5));
        Disposable leaves = rules(rule, all).decide(SentRequest.get("/")).subscribe();
        assertThat(heard).isEmpty();
        leaves.dispose();
        leaves.dispose();
        assertThat(heard).containsExactly("watch of first cancelled", "watch of last cancelled");
    }

    private Verdict decide(Rule.Builder rule, RuleListener listener) {
        return rules(rule, listener).decide(SentRequest.get("/")).block(Duration.ofSeconds(30));
    }

    private Rules rules(Rule.Builder rule, RuleListener listener) {
        return Rules.of(limiter, SentRequest.syntax(), List.of(rule.build()), listener);
    }

    private RuleListener named(String name) {
        return new Named(name);
    }

    private RuleListener watching(String name) {
        return new Named(name) {
            @Override
            public Watch watch(List<Match> matches, ContextView context) {
                assertThat(matches).extracting(match -> match.rule().name()).containsExactly("a");
                return new Watching(name);
            }
        };
    }

    private class Named implements RuleListener {

        private final String name;

        Named(String name) {
            this.name = name;
        }

        @Override
        public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
            heard.add(name + " decided");
        }

        @Override
        public void refused(Match match) {
            heard.add(name + " refused");
        }

        @Override
        public void undecided(Match match, Throwable why) {
            heard.add(name + " undecided");
        }

        @Override
        public void lookupFailed(Match match, RuleLookupException why) {
            heard.add(name + " failed");
        }
    }

    private final class Watching extends Named implements RuleListener.Watch {

        private final String name;

        Watching(String name) {
            super("watch of " + name);
            this.name = name;
        }

        @Override
        public Context context(Context context) {
            return context.put(name, "here");
        }

        @Override
        public void ended() {
            heard.add("watch of " + name + " ended");
        }

        @Override
        public void cancelled() {
            heard.add("watch of " + name + " cancelled");
        }
    }

    private static final class Throwing implements RuleListener {

        @Override
        public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
            throw new IllegalStateException("decided");
        }

        @Override
        public void refused(Match match) {
            throw new IllegalStateException("refused");
        }

        @Override
        public void lookupFailed(Match match, RuleLookupException why) {
            throw new IllegalStateException("failed");
        }

        @Override
        public void undecided(Match match, Throwable why) {
            throw new IllegalStateException("undecided");
        }
    }

    /** Throws when he is asked whether he watches, or all the time that he does. */
    private record ThrowingWatch(boolean watches) implements RuleListener {

        @Override
        public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
            throw new IllegalStateException("decided");
        }

        @Override
        public Watch watch(List<Match> matches, ContextView seen) {
            if (!watches) {
                throw new IllegalStateException("watch");
            }
            return new Watch() {
                @Override
                public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
                    throw new IllegalStateException("decided by a watch");
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
            };
        }
    }
}
