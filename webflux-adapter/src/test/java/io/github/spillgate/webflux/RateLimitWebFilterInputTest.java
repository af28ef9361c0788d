package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.testkit.Thorough;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/**
 * Requests with random paths, queries, cookies and fields: every key source reads or rejects them without an
 * error.
 */
class RateLimitWebFilterInputTest extends ServiceFixture {

    private final Map<String, String> undecided = new ConcurrentHashMap<>();

    @Test
    void nothingThatAClientSendsMakesALookupFail() {
        assertNoLookupFails(300);
    }

    @Test
    @Thorough
    void nothingOfManyRequestsMakesALookupFail() {
        assertNoLookupFails(4_000);
    }

    private void assertNoLookupFails(int requests) {
        start(
                Rule.named("query").key(KeySource.query("k")).limit(Limit.perMinute(1_000_000)),
                Rule.named("cookie").key(KeySource.cookie("k")).limit(Limit.perMinute(1_000_000)),
                Rule.named("header").key(KeySource.header("K")).limit(Limit.perMinute(1_000_000)),
                Rule.named("path")
                        .paths("/p/{k}/**")
                        .key(KeySource.pathVariable("k"))
                        .limit(Limit.perMinute(1_000_000)),
                Rule.named("address")
                        .key(KeySource.clientAddress(ClientAddress.ofXForwardedFor("127.0.0.0/8")))
                        .limit(Limit.perMinute(1_000_000)),
                Rule.named("forwarded")
                        .key(KeySource.clientAddress(ClientAddress.ofForwarded("127.0.0.0/8")))
                        .limit(Limit.perMinute(1_000_000)));
        Random random = new Random(43);
        Set<String> statuses = new TreeSet<>();
        for (int i = 0; i < requests; i++) {
            String[] lines = {
                "GET /p/" + any(random, "ab;=,.k/", 8) + "?k="
                        + any(random, "k&+?/0aF;,", 12).replace("&k", "&k=") + " HTTP/1.1",
                "Host: localhost",
                "Cookie: k=" + any(random, "k=;, \"ab%", 12),
                "Cookie: a=b; " + any(random, "k=;, \"ab%", 12),
                "K: " + any(random, "a,\" ;\u00e9\u00ff", 6),
                "X-Forwarded-For: " + any(random, "1.:[]a, %\"", 16),
                "Forwarded: " + any(random, "for=1.:[]a,;\"\\ ", 16)
            };
            statuses.add(service.answerTo(lines));
        }
        assertThat(statuses)
                .allSatisfy(status -> assertThat(status).startsWith("HTTP/1.1").doesNotContain(" 5"));
        assertThat(undecided).isEmpty();
    }

    private static String any(Random random, String of, int most) {
        StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(most + 1); i > 0; i--) {
            text.append(of.charAt(random.nextInt(of.length())));
        }
        return text.toString();
    }

    private void start(Rule.Builder... rules) {
        Rules built = Rules.of(
                limiters.limiter(),
                PathPatterns.ofSpring(),
                Stream.of(rules).map(Rule.Builder::build).toList(),
                RuleInstrumentation.none().listener(listener()));
        service = Service.start(context -> {
            Service.filters(context, RateLimitResponses.standard(), built);
            context.registerBean(Handlers.class);
        });
    }

    private RuleListener listener() {
        return new RuleListener() {
            @Override
            public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {}

            @Override
            public void undecided(RuleMatch match, Throwable why) {
                undecided.put(match.rule().name(), why.toString());
            }
        };
    }

    @RestController
    static class Handlers {

        @RequestMapping("/p/**")
        Mono<String> p() {
            return Mono.just("p");
        }
    }
}
