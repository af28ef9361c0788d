package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenAmbiguous;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Mono;

class RuleToBuilderTest {

    private static final KeySource KEY = KeySource.header("X-Api-Key");

    /** Each property has another value than its default. A property that is added must be set here. */
    private final Rule.Builder all = Rule.named("all")
            .paths("/a", "/b")
            .excludePaths("/c")
            .methods("post", "PURGE")
            .phase(Phase.AFTER_AUTHENTICATION)
            .key(KEY)
            .limit(Limit.perMinute(30))
            .limit(Limit.perHour(5).named("burst"))
            .limits((match, key) -> Mono.empty())
            .cost(5)
            .cost(match -> Mono.empty())
            .unless(match -> true)
            .whenMissing(WhenMissing.DENY)
            .whenAmbiguous(WhenAmbiguous.MISSING)
            .whenUndecided(WhenUndecided.DENY)
            .whenLookupFails(WhenLookupFails.UNDECIDED)
            .refundWhen("2xx")
            .shadow(true)
            .timeout(Duration.ofMillis(20))
            .texts("bean:key", "plans", "sizes");

    private static Stream<Field> properties() {
        return Stream.of(Rule.Builder.class.getDeclaredFields())
                .filter(field -> !field.isSynthetic())
                .peek(field -> field.setAccessible(true));
    }

    @ParameterizedTest
    @MethodSource("properties")
    void everyPropertyIsCopied(Field property) throws IllegalAccessException {
        Object value = property.get(all);
        assertThat(value).as("set in this test").isNotNull().isNotEqualTo(property.get(Rule.named("default")));
        assertThat(property.get(all.build().toBuilder())).isEqualTo(value);
    }

    @Test
    void theLimitsOfACopyHaveTheNamesOfTheOriginal() {
        Rule rule = all.build();
        assertThat(rule.toBuilder().build().limits()).isEqualTo(rule.limits());
        assertThat(rule).hasToString(rule.toBuilder().build().toString());
    }

    @Test
    void limitsCanBeReplacedAndTheOriginalStaysAsItIs() {
        Rule rule = Rule.named("login").key(KEY).limit(Limit.perMinute(5)).build();
        Rule raised = rule.toBuilder().limits(List.of(Limit.perMinute(50))).build();
        assertThat(raised.limits()).containsExactly(Limit.perMinute(50).named("login-1m"));
        assertThat(rule.limits()).containsExactly(Limit.perMinute(5).named("login-1m"));
    }

    @Test
    void aReplacedKeyOrLookupDoesNotKeepTheTextOfTheSettings() {
        Rule rule = all.build();
        Rule other = rule.toBuilder()
                .key(KeySource.header("X-Other"))
                .limits((match, key) -> Mono.empty())
                .cost(match -> Mono.empty())
                .build();
        assertThat(rule.keyText()).isEqualTo("bean:key");
        assertThat(other.keyText()).isEqualTo("header:X-Other");
        assertThat(rule.limitsFrom()).contains("plans");
        assertThat(other.limitsFrom()).contains("function");
        assertThat(other.costFrom()).contains("function");
    }

    @Test
    void theDefaultPhaseFollowsTheKeyOfTheCopy() {
        Rule rule = Rule.named("a").key(KEY).limit(Limit.perMinute(1)).build();
        assertThat(rule.phase()).isEqualTo(Phase.BEFORE_AUTHENTICATION);
        assertThat(rule.toBuilder().key(KeySource.principal()).build().phase()).isEqualTo(Phase.AFTER_AUTHENTICATION);
    }
}
