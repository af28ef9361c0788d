package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.ADDRESS;
import static io.github.spillgate.testkit.LimiterForTests.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/**
 * A request holds the permits of concurrency limits until its response has ended, however it ends. The hold time is
 * long, so that no test passes because a permit has expired.
 */
public abstract class HttpHoldContract extends HttpContract {

    private static final int CLIENTS = 12;
    private static final int PERMITS = 3;

    protected HttpHoldContract(HttpAdapter adapter) {
        super(adapter);
    }

    HttpHoldContract(HttpAdapter adapter, PostgresForTests postgres) {
        super(adapter, postgres);
    }

    private static Rule.Builder concurrent(String name, long permits) {
        return Rule.named(name)
                .key(ADDRESS)
                .limit(Limit.concurrent(permits).hold(Duration.ofHours(1)).named(name));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aStreamHoldsItsPermitUntilTheClientDisconnects(boolean isHttp2) {
        Rules rules = serve(concurrent("running", 1).paths(pattern("/hold/**")));
        ClientForTests streaming = isHttp2 ? http2() : client;
        streaming.get("/hello");
        streaming.readAndDisconnect("/hold/stream", HttpAdapter.PART.length(), () -> {
            assertThat(usage(rules, "running").used()).isEqualTo(1);
            HttpResponse<String> denied = client.get("/hold/0");
            assertThat(denied.statusCode()).isEqualTo(429);
            assertThat(denied.headers().firstValue("Retry-After")).contains("1");
            assertThat(denied.headers().firstValue("Content-Type").orElse("")).startsWith("application/problem+json");
            assertThat(denied.headers().map()).doesNotContainKeys("ratelimit", "ratelimit-policy");
        });
        awaitUsed(rules, "running", 0);
        assertThat(client.get("/hold/0").body()).isEqualTo("held");
    }

    @Test
    void permitsAreReleasedHoweverAResponseEnds() {
        Rules rules = serve(concurrent("running", 1), concurrent("later", 1).phase(Phase.AFTER_AUTHENTICATION));
        for (String path :
                List.of("/hello", "/failing", "/status/204", "/status/503", "/none", "/hold/0", "/stream/3")) {
            client.get(path);
            awaitUsed(rules, "running", 0);
            awaitUsed(rules, "later", 0);
        }
        client.send(client.request("/hello").method("HEAD", BodyPublishers.noBody()));
        awaitUsed(rules, "running", 0);
        assertThat(client.post("/hold/upload", "x".repeat(200_000)).body()).isEqualTo("uploaded");
        awaitUsed(rules, "running", 0);
        awaitUsed(rules, "later", 0);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aConcurrencyLimitThatIsLookedUpIsHeldUntilTheResponseHasEnded(boolean isLate) {
        Limit found = Limit.concurrent(1).hold(Duration.ofHours(1)).retryAfter(Duration.ofSeconds(3));
        Mono<List<Limit>> plan = Mono.just(List.of(found));
        serve(address("plan", 1_000)
                .limits((match, key) -> isLate ? plan.delayElement(Duration.ofMillis(1)) : plan)
                .timeout(Duration.ofSeconds(5))
                .paths(pattern("/hold/**")));
        client.readAndDisconnect("/hold/stream", HttpAdapter.PART.length(), () -> {
            HttpResponse<String> denied = client.get("/hold/0");
            assertThat(denied.statusCode()).isEqualTo(429);
            assertThat(denied.headers().firstValue("Retry-After")).contains("3");
        });
        // Each is denied, or holds the permit until it has ended.
        await().atMost(PATIENCE).until(() -> client.get("/hold/0").statusCode() == 200);
        await().atMost(PATIENCE).until(() -> client.get("/hold/0").statusCode() == 200);
        assertThat(work.most()).isEqualTo(1);
    }

    @Test
    void aRefundForTheStatusDoesNotReleaseAPermitEarly() {
        Rules rules = serve(concurrent("running", 1).refundWhen("2xx").paths(pattern("/hold/**")));
        client.readAndDisconnect(
                "/hold/stream",
                HttpAdapter.PART.length(),
                () -> assertThat(client.get("/hold/0").statusCode()).isEqualTo(429));
        awaitUsed(rules, "running", 0);
    }

    @Test
    void aShadowRuleHoldsAndNeverDenies() {
        Rules rules = serve(concurrent("tried", 1).shadow(true));
        client.readAndDisconnect("/hold/stream", HttpAdapter.PART.length(), () -> {
            awaitUsed(rules, "tried", 1);
            assertThat(client.get("/hold/0").statusCode()).isEqualTo(200);
            await().atMost(PATIENCE).until(() -> events.of("tried").contains("tried DENIED"));
        });
        awaitUsed(rules, "tried", 0);
    }

    @Test
    void aWebSocketHoldsItsPermitUntilItIsClosed() {
        assumeWebSockets();
        Rules rules = serve(concurrent("sockets", 1).paths("/socket"));
        try (WebSocketForTests socket = WebSocketForTests.open(client.uri("/socket"))) {
            socket.say("one");
            await().atMost(PATIENCE).until(() -> socket.heard().contains("one"));
            assertThat(usage(rules, "sockets").used()).isEqualTo(1);
            assertThat(client.get("/socket").statusCode()).isEqualTo(429);
        }
        awaitUsed(rules, "sockets", 0);
        assertThat(work.running()).isZero();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void clientsThatDisconnectAtRandomMomentsLeakNoPermit(boolean isHttp2) {
        disconnectAtRandom(isHttp2, 100);
    }

    @Proof
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void thousandsOfClientsThatDisconnectLeakNoPermit(boolean isHttp2) {
        disconnectAtRandom(isHttp2, 3_000);
    }

    private void disconnectAtRandom(boolean isHttp2, int handlers) {
        Rules rules = serve(concurrent("running", PERMITS));
        ClientForTests.inParallel(CLIENTS, random -> {
            ClientForTests streams = client;
            for (int i = 0; work.begun() < handlers && !Thread.currentThread().isInterrupted(); i++) {
                if (!isHttp2) {
                    client.disconnectAtRandom(random, true);
                    if (i % 10 == 0) {
                        // Wait for the server: those that disconnect do not, and their requests would pile up. On a
                        // connection of its own, because a server may close one that is kept.
                        client.statusLine("/hello");
                    }
                    continue;
                }
                if (i % 500 == 0) {
                    // After many resets a connection may stall, because not all of its window is returned.
                    streams = http2();
                    streams.get("/hello");
                }
                resetAtRandom(streams, random);
            }
        });
        // The server may still read requests of clients that have disconnected.
        await().atMost(PATIENCE).until(() -> client.statusLine("/hello").contains(" 200"));
        await().atMost(PATIENCE).until(() -> work.running() == 0);
        awaitUsed(rules, "running", 0);
        assertThat(events.why()).as("requests that passed uncounted").isEmpty();
        if (cancelsAtOnce()) {
            assertThat(work.most()).isBetween(1, PERMITS);
        }
    }

    private static void resetAtRandom(ClientForTests streams, Random random) {
        CompletableFuture<HttpResponse<String>> response = streams.sendLater(
                switch (random.nextInt(3)) {
                    case 0 -> streams.request("/hold/" + random.nextInt(10)).GET();
                    case 1 -> streams.request("/hold/stream").GET();
                    default ->
                        streams.request("/hold/upload")
                                .POST(BodyPublishers.ofByteArray(new byte[random.nextInt(300_000)]));
                });
        try {
            response.get(random.nextInt(15_000), TimeUnit.MICROSECONDS);
        } catch (Exception e) {
            response.cancel(true);
        }
    }
}
