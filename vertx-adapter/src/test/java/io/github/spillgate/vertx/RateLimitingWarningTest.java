package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.testkit.LogForTests;
import io.vertx.core.json.JsonObject;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** What may be meant otherwise is said once, in the words of the settings that a service on Vert.x has. */
class RateLimitingWarningTest extends HandlerFixture {

    private static final String UNTRUSTED = "no proxy is trusted";
    private static final String UNDECIDED = "could not be decided";

    private final LogForTests log = LogForTests.listen();

    @AfterEach
    void stopListening() {
        log.close();
    }

    @Test
    void aForwardingHeaderWithoutATrustedProxyIsLoggedOnce() throws Exception {
        serve(limiting("{}"));
        assertThat(get("/").statusCode()).isEqualTo(200);
        assertThat(log.lines(UNTRUSTED)).isEmpty();
        List<CompletableFuture<HttpResponse<String>>> many = IntStream.range(0, 20)
                .mapToObj(i -> client.sendAsync(
                        request("/", "X-Forwarded-For", "203.0.113.7").build(), BodyHandlers.ofString()))
                .toList();
        for (CompletableFuture<HttpResponse<String>> one : many) {
            assertThat(done(one).statusCode()).isEqualTo(200);
        }
        assertThat(log.lines(UNTRUSTED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains("expected client-address.header and trusted-proxies if there is a proxy"));
    }

    @Test
    void aHeaderOfTrustedProxiesIsNoDoubt() throws Exception {
        serve(limiting("{\"header\": \"x-forwarded-for\", \"trusted-proxies\": \"127.0.0.0/8\"}"));
        assertThat(get("/", "X-Forwarded-For", "203.0.113.7").statusCode()).isEqualTo(200);
        assertThat(log.lines(UNTRUSTED)).isEmpty();
    }

    @Test
    void aFailedRuleIsLoggedOnceAndReportedEachTime() throws Exception {
        List<String> heard = new CopyOnWriteArrayList<>();
        serve(limiting("{}").listener(hearing(heard)));
        assertThat(get("/broken?q=a%0D%0Ab").statusCode()).isEqualTo(200);
        assertThat(get("/broken?q=again").statusCode()).isEqualTo(200);
        assertThat(log.lines(UNDECIDED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains("rule broken could not be decided", "IllegalStateException: a\\u000d\\u000ab"));
        assertThat(heard).containsExactly("a\r\nb", "again");
    }

    private RateLimiting.Builder limiting(String clientAddress) {
        JsonObject options = new JsonObject("""
                {"name": "doubt", "store": "local", "rules": [
                  {"name": "address", "limits": "100/1m"},
                  {"name": "broken", "paths": "/broken", "key": "bean:broken", "limits": "100/1m"}]}
                """).put("client-address", new JsonObject(clientAddress));
        return RateLimiting.of(vertx, new RateLimitOptions(options)).key("broken", RateLimitingWarningTest::broken);
    }

    private void serve(RateLimiting.Builder limiting) throws Exception {
        RateLimitHandler handler = limiting.start().handler(Phase.BEFORE_AUTHENTICATION);
        start(router -> router.route().handler(handler).handler(ctx -> end(ctx, "served")));
    }

    private static RuleListener hearing(List<String> heard) {
        return new RuleListener() {
            @Override
            public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {}

            @Override
            public void undecided(RuleMatch match, Throwable why) {
                heard.add(why.getMessage());
            }
        };
    }

    private static Mono<String> broken(RuleMatch match) {
        return Mono.error(
                new IllegalStateException(match.request().queryParameters("q").get(0)));
    }
}
