package io.github.spillgate.fleet;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookup;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import io.github.spillgate.spi.FleetExchange.Value;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.LogForTests;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** What is published for limiters and rules, on each store. */
abstract class PublicationContract {

    private static final Limit CONFIGURED = Limit.perHour(100);
    private static final Limit LOWER = Limit.perHour(10);

    final String name = "published-" + UUID.randomUUID().toString().substring(0, 8);
    private final List<RateLimiter> limiters = new ArrayList<>();
    private final RateLimiter limiter = limiter(CONFIGURED);

    /** Returns a store, the same one for all limiters of a process. */
    abstract LimitStore store();

    /** Returns whether other processes use the store. */
    boolean isShared() {
        return true;
    }

    RateLimiter limiter(Limit limit) {
        RateLimiter created =
                RateLimiter.builder(name).store(store()).limit(limit).build();
        limiters.add(created);
        return created;
    }

    @AfterEach
    void close() {
        limiters.forEach(RateLimiter::close);
    }

    @Test
    void publishedLimitsApplyHereWhenTheyArePublished() {
        Publication published = publish(Publication.of(LOWER).comment("partner is overloaded"));
        assertThat(published.version()).isPositive();
        assertThat(published.isShared()).isEqualTo(isShared());
        assertThat(published.since())
                .isBetween(Instant.now().minusSeconds(60), Instant.now().plusSeconds(60));
        assertThat(limiter.limits()).containsExactly(LOWER);
        assertThat(limiter.published()).contains(published);
        assertThat(requireNonNull(limiter.tryAcquire("a").block()).remaining()).isEqualTo(9);
    }

    @Test
    void theConfigurationAppliesAgainWhenTheyAreWithdrawnOrEnd() {
        Publication published = publish(Publication.of(LOWER));
        Limit next = Limit.perHour(200);
        limiter.replaceLimits(List.of(next));
        assertThat(limiter.limits()).containsExactly(LOWER);
        limiter.unpublish(published.version()).block();
        assertThat(limiter.limits()).containsExactly(next);
        assertThat(limiter.published()).isEmpty();
        publish(Publication.of(LOWER).until(Instant.now().plusMillis(500)));
        assertThat(limiter.limits()).containsExactly(LOWER);
        await().untilAsserted(() -> assertThat(limiter.limits()).containsExactly(next));
        publish(Publication.of(LOWER));
    }

    @Test
    void limitersThatAreMadeLaterEndThemToo() {
        publish(Publication.of(LOWER).until(Instant.now().plusMillis(1_000)));
        close();
        RateLimiter later = limiter(CONFIGURED);
        assertThat(later.limits()).containsExactly(LOWER);
        await().untilAsserted(() -> assertThat(later.limits()).containsExactly(CONFIGURED));
    }

    @Test
    void ofTwoAdministratorsOneWins() {
        Publication first = publish(Publication.of(LOWER));
        PublicationConflictException conflict = catchThrowableOfType(
                PublicationConflictException.class, () -> publish(Publication.of(Limit.perHour(20))));
        assertThat(conflict.present()).contains(first);
        Publication second = publish(first.limits(Limit.perHour(20)));
        assertThat(second.version()).isGreaterThan(first.version());
        assertThatThrownBy(() -> limiter.unpublish(first.version()).block())
                .isInstanceOf(PublicationConflictException.class)
                .hasMessageContaining("version " + second.version());
        limiter.unpublish(second.version()).block();
        PublicationConflictException withdrawn =
                catchThrowableOfType(PublicationConflictException.class, () -> publish(second));
        assertThat(withdrawn.present()).isEmpty();
    }

    @Test
    void limitersOfOneNameInAProcessShareWhatIsPublished() {
        publish(Publication.of(LOWER));
        assertThat(limiter(Limit.perHour(50)).limits()).containsExactly(LOWER);
        RateLimiter other = RateLimiter.builder(name + "-2")
                .store(store())
                .limit(CONFIGURED)
                .build();
        assertThat(other.limits()).containsExactly(CONFIGURED);
        other.close();
    }

    @Test
    void limitsOfAChargeAndOfALookupApplyInPlaceOfPublishedOnes() {
        Limit ofKey = Limit.perHour(3);
        RateLimiter looking = RateLimiter.builder(name + "-3")
                .store(store())
                .limit(CONFIGURED)
                .lookup(LimitLookup.of(key -> key.equals("known") ? Mono.just(List.of(ofKey)) : Mono.empty()))
                .build();
        limiters.add(looking);
        looking.publish(Publication.of(LOWER)).block();
        assertThat(limitOf(looking, Charge.of("known"))).isEqualTo(ofKey);
        assertThat(limitOf(looking, Charge.of("unknown"))).isEqualTo(LOWER);
        assertThat(limitOf(looking, Charge.of("unknown", Limit.perHour(4)))).isEqualTo(Limit.perHour(4));
    }

    private static Limit limitOf(RateLimiter limiter, Charge charge) {
        return requireNonNull(limiter.peek(charge).block()).limits().get(0).limit();
    }

    @Test
    void waitersWaitUnderPublishedLimits() {
        publish(Publication.of(Limit.perHour(1)));
        limiter.tryAcquire("a").block();
        Mono<Decision> waiter = limiter.acquire("a", Duration.ofDays(1)).cache();
        waiter.subscribe();
        Publication seen = limiter.published().orElseThrow();
        publish(seen.limits(LOWER));
        assertThat(requireNonNull(waiter.block()).isAllowed()).isTrue();
    }

    @Test
    void publishedLimitsOfARuleApplyUntilTheyAreWithdrawn() {
        Rules rules = rules(rule("login", CONFIGURED), rule("orders", CONFIGURED));
        Publication published = requireNonNull(
                rules.publish("login", Publication.of(LOWER).shadow(true)).block());
        assertThat(rules.list()).extracting(Rule::summary).containsExactly("login (shadow): 10/1h", "orders: 100/1h");
        assertThat(rules.published()).isEqualTo(Map.of("login", published));
        rules.replace(List.of(rule("login", Limit.perHour(7)), rule("third", CONFIGURED)));
        assertThat(rules.list()).extracting(Rule::summary).containsExactly("login (shadow): 10/1h", "third: 100/1h");
        rules.unpublish("login", published.version()).block();
        assertThat(rules.list()).extracting(Rule::summary).containsExactly("login: 7/1h", "third: 100/1h");
    }

    @Test
    void whatCannotApplyIsRefusedBeforeItIsSent() {
        Rules rules = rules(
                rule("login", CONFIGURED), rule("login-2", Limit.perHour(5).named("x")));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.publish(Publication.of(LOWER, Limit.perHour(20))))
                .withMessageContaining("share its count");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.publish(Publication.of(LOWER).shadow(true)))
                .withMessageContaining("dry run");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> rules.publish("\nother", Publication.of(LOWER)))
                .withMessage("no rule is called \"\\u000aother\": expected one of [login, login-2]");
        assertThatIllegalArgumentException()
                .isThrownBy(() ->
                        rules.publish("login", Publication.of(Limit.perHour(5).named("2-x"))))
                .withMessageContaining("both have a limit that is called login-2-x");
        assertThatIllegalArgumentException()
                .isThrownBy(
                        () -> publish(Publication.of(LOWER).until(Instant.now().minusSeconds(1))))
                .withMessageContaining("out of range");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Publication.of(LOWER).comment("a\nb"));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Publication.of(LOWER).comment("a".repeat(201)));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Publication.of(LOWER).comment("half of \ud83d"));
        assertThatIllegalArgumentException().isThrownBy(Publication::of);
        assertThat(limiter.published()).isEmpty();
        assertThat(rules.published()).isEmpty();
    }

    /** As an instance of an older version sees it. */
    @Test
    void aTextThatIsNotUnderstoodKeepsWhatApplies() {
        Rules rules = rules(rule("login", CONFIGURED));
        Publication published = publish(Publication.of(LOWER));
        try (LogForTests log = LogForTests.listen()) {
            write(
                    "/",
                    published.version(),
                    "\n" + Instant.now().plusSeconds(600).toEpochMilli() + "\n\n10 lunar");
            write("/login", 0, "newer\n" + Instant.now().plusSeconds(600).toEpochMilli() + "\n\n10/1h");
            for (int i = 0; i < 3; i++) {
                beat();
            }
            assertThat(limiter.limits()).containsExactly(LOWER);
            assertThat(rules.list()).extracting(Rule::summary).containsExactly("login: 100/1h");
            assertThat(log.lines(name, "is not understood")).hasSize(2);
        }
    }

    @Test
    void aTextThatIsNotUnderstoodIsNotReplacedUnseen() {
        String content = "newer\n" + Instant.now().plusSeconds(600).toEpochMilli() + "\n\n10/1h";
        write("/", 0, content);
        for (int i = 0; i < 2; i++) {
            assertThatThrownBy(() -> publish(Publication.of(LOWER)))
                    .isInstanceOf(PublicationConflictException.class)
                    .hasMessageContaining("nothing that this instance understands is published for " + name);
            assertThat(limiter.limits()).containsExactly(CONFIGURED);
        }
    }

    @Test
    void limitsOfRulesThatFitOnlyTogetherApplyAfterARestart() {
        Rule[] configured = {
            rule("login", CONFIGURED), rule("login-2", Limit.perHour(5).named("x"))
        };
        Rules rules = rules(configured);
        rules.publish("login-2", Publication.of(Limit.perHour(5).named("y"))).block();
        rules.publish("login", Publication.of(Limit.perHour(10).named("2-x"))).block();
        assertThat(rules(configured)).hasToString(rules.toString()).asString().contains("login: 10/1h");
    }

    @Test
    void whatIsPublishedForARuleThatIsNoLongerConfiguredCanBeWithdrawn() {
        Rules rules = rules(rule("login", CONFIGURED));
        Publication published =
                requireNonNull(rules.publish("login", Publication.of(LOWER)).block());
        rules.replace(List.of());
        rules.unpublish("login", published.version()).block();
        assertThat(rules.published()).isEmpty();
    }

    /** Another program, or another version, has published what the configuration of this one does not allow. */
    @Test
    void limitsThatCannotApplyHereKeepWhatApplies() {
        Rules rules = rules(
                rule("login", CONFIGURED), rule("login-2", Limit.perHour(5).named("x")));
        try (LogForTests log = LogForTests.listen()) {
            String until = "\n" + Instant.now().plusSeconds(600).toEpochMilli();
            write("/", 0, until + "\n\n10/1h\n20/1h");
            write("/login", 0, until + "\n\n10/1h name=2-x");
            write("/login-2", 0, until + "\n\n6/1h name=x");
            beat();
            assertThat(limiter.limits()).containsExactly(CONFIGURED);
            assertThat(rules.list()).extracting(Rule::summary).containsExactly("login: 100/1h", "login-2: 6/1h");
            assertThat(log.lines(name, "keeps", "cannot be applied")).hasSize(1);
            assertThat(log.lines("Rule login keeps its limits", "cannot be applied"))
                    .isNotEmpty();
        }
    }

    @Test
    void eachChangeIsOneLineWithAnEscapedComment() {
        try (LogForTests log = LogForTests.listen()) {
            Publication published = publish(Publication.of(LOWER).comment("„full“ \" \u202e"));
            limiter.unpublish(published.version()).block();
            assertThat(log.lines(name, "published [10/1h]", "instead of [100/1h]", "\\u201efull\\u201c \\\" \\u202e"))
                    .hasSize(1);
            assertThat(log.lines(name, "configured [100/1h]", "instead of [10/1h]"))
                    .hasSize(1);
        }
    }

    // Helpers.

    Publication publish(Publication value) {
        return requireNonNull(limiter.publish(value).block());
    }

    /** Reads what is published. */
    void beat() {
        limiter.ready().block();
    }

    /** Writes a value without any check. */
    void write(String rule, long seen, String content) {
        Value value =
                new Value(name + rule, seen, Instant.now().plusSeconds(600).toEpochMilli(), content);
        FleetExchange request = new FleetExchange(UUID.randomUUID(), Duration.ZERO, List.of(), 0, List.of(), value);
        assertThat(requireNonNull(store().origin().exchange(request).block()).outcome())
                .isEqualTo(PublishOutcome.PUBLISHED);
    }

    Rules rules(Rule... rules) {
        return Rules.of(
                limiter,
                path -> {
                    throw new IllegalArgumentException("no rule has a path");
                },
                List.of(rules));
    }

    static Rule rule(String rule, Limit limit) {
        return Rule.named(rule).key(LimiterForTests.ADDRESS).limit(limit).build();
    }
}
