package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The real cost of a request, which its handler knows only when it is done, replaces the cost that was charged. */
public abstract class HttpCostContract extends HttpContract {

    protected HttpCostContract(HttpAdapter adapter) {
        super(adapter);
    }

    HttpCostContract(HttpAdapter adapter, PostgresForTests postgres) {
        super(adapter, postgres);
    }

    @Test
    void theRealCostReplacesTheChargedOne() {
        Rules rules = serve(address("units", 10).cost(4));
        assertThat(client.get("/cost/1").body()).isEqualTo("costs 1");
        awaitRemaining(rules, "units", 9);
        assertThat(client.get("/cost/9").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "units", 0);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
    }

    @Test
    void withoutARealCostNothingIsSettled() {
        Rules rules = serve(address("units", 10).cost(4));
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        assertThat(client.get("/cost/2").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "units", 4);
    }

    @Test
    void aRealCostAboveTheLimitDelaysWhatFollows() {
        Rules rules = serve(address("units", 10).cost(4));
        assertThat(client.get("/cost/17").statusCode()).isEqualTo(200);
        awaitUsed(rules, "units", 17);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
    }

    @Test
    void eachRuleMayHaveItsOwnRealCost() {
        Rules rules = serve(address("requests", 10), address("parts", 100).cost(20));
        assertThat(client.get("/stream/5").body()).isEqualTo(HttpAdapter.PART.repeat(5));
        awaitRemaining(rules, "parts", 95);
        awaitRemaining(rules, "requests", 9);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aStreamThatTheClientCutsSettlesWhatWasUsed(boolean isHttp2) {
        Rules rules = serve(address("parts", 1_000_000).paths(pattern("/stream/**")));
        ClientForTests cutting = isHttp2 ? http2() : client;
        cutting.get("/hello");
        cutting.readAndDisconnect("/stream/1000000", 10 * HttpAdapter.PART.length());
        await().atMost(PATIENCE).until(() -> usage(rules, "parts").remaining() <= 1_000_000 - 10);
        // It has ended, and is settled once.
        long remaining = usage(rules, "parts").remaining();
        assertThat(client.get("/stream/3").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "parts", remaining - 3);
    }

    @Test
    void aFailedRequestIsSettledToo() {
        Rules rules = serve(address("units", 10).cost(5));
        assertThat(client.get("/failing").statusCode()).isEqualTo(500);
        awaitRemaining(rules, "units", 7);
    }

    /** The mistake is the handler's, so its client gets 500. The request stays charged with what was reserved. */
    @Test
    void aNegativeRealCostFailsTheRequestAndChangesNothing() {
        Rules rules = serve(
                address("units", 10).cost(4),
                Rule.named("one")
                        .key(LimiterForTests.ADDRESS)
                        .limit(Limit.concurrent(1).hold(Duration.ofMinutes(1))));
        assertThat(client.get("/cost/-1").statusCode()).isEqualTo(500);
        awaitRemaining(rules, "one", 1);
        awaitRemaining(rules, "units", 6);
        assertThat(client.get("/cost/2").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "units", 4);
    }

    @Test
    void aRuleThatRefundsForTheStatusIsNotSettled() {
        Rules rules = serve(
                address("good", 10).cost(4).refundWhen("2xx"),
                address("bad", 10).cost(4).refundWhen("5xx"));
        assertThat(client.get("/cost/3").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "good", 10);
        awaitRemaining(rules, "bad", 7);
        assertThat(client.get("/failing").statusCode()).isEqualTo(500);
        awaitRemaining(rules, "good", 7);
        awaitRemaining(rules, "bad", 7);
    }

    @Test
    void aShadowRuleIsSettledToo() {
        Rules rules = serve(address("tried", 10).cost(4).shadow(true));
        assertThat(client.get("/cost/2").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "tried", 8);
    }

    @Test
    void aRequestThatNoRuleMatchesHasNothingToSettle() {
        Rules rules = serve(address("other", 10).paths("/other"));
        assertThat(client.get("/cost/2").statusCode()).isEqualTo(200);
        awaitRemaining(rules, "other", 10);
    }
}
