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
import reactor.core.publisher.Mono;

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

    private Verdict decide(Rule.Builder rule, RuleListener listener) {
        return Rules.of(limiter, SentRequest.syntax(), List.of(rule.build()), listener)
                .decide(SentRequest.get("/"))
                .block(Duration.ofSeconds(30));
    }

    private RuleListener named(String name) {
        return new RuleListener() {
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
        };
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
        public void undecided(Match match, Throwable why) {
            throw new IllegalStateException("undecided");
        }
    }
}
