package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static io.github.spillgate.testkit.RateLimitFields.names;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.testkit.ClientForTests.Answer;
import java.net.http.HttpClient.Version;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Concurrent, pipelined and large requests, the decisions that a handler sees, and an outage of Redis. */
public abstract class HttpConnectionContract extends HttpContract {

    protected HttpConnectionContract(HttpAdapter adapter) {
        super(adapter);
    }

    @Test
    void exactlyThePermitsOfTheLimitAreAllowed() {
        serve(address("address", 25));
        assertThat(allowedOf(60, client)).isEqualTo(25);
        assertThat(handled).hasValue(25);
    }

    @Test
    void streamsOfOneConnectionHaveTheirOwnVerdicts() {
        serve(address("address", 25));
        ClientForTests http2 = http2();
        assertThat(http2.get("/hello").version()).isEqualTo(Version.HTTP_2);
        assertThat(allowedOf(60, http2)).isEqualTo(24);
        assertThat(handled).hasValue(25);
    }

    private static long allowedOf(int requests, ClientForTests client) {
        List<HttpResponse<String>> responses =
                IntStream.range(0, requests)
                        .mapToObj(i -> client.sendLater(client.request("/hello").GET()))
                        .toList()
                        .stream()
                        .map(CompletableFuture::join)
                        .toList();
        assertThat(responses).allSatisfy(response -> {
            assertThat(response.statusCode()).isIn(200, 429);
            assertThat(response.body()).startsWith(response.statusCode() == 200 ? "hello" : "{");
            assertThat(response.headers().firstValue("Retry-After").isPresent())
                    .isEqualTo(response.statusCode() == 429);
        });
        assertThat(responses.stream().map(HttpResponse::version).distinct()).hasSize(1);
        return responses.stream()
                .filter(response -> response.statusCode() == 200)
                .count();
    }

    @Test
    void pipelinedRequestsAreAnsweredInOrderEachWithItsOwnVerdict() {
        serve(address("address", 5));
        List<Answer> answers = client.pipelined(
                IntStream.range(0, 12).mapToObj(i -> "/items/" + i).toList());
        for (int i = 0; i < 12; i++) {
            Answer answer = answers.get(i);
            assertThat(answer.status()).as("answer " + i).isEqualTo(i < 5 ? 200 : 429);
            if (i < 5) {
                assertThat(answer.body()).isEqualTo("item " + i);
            }
            assertThat(answer.fields()).containsEntry("X-RateLimit-Remaining", Integer.toString(Math.max(0, 4 - i)));
        }
        assertThat(handled).hasValue(5);
    }

    @ParameterizedTest
    @EnumSource(
            value = Version.class,
            names = {"HTTP_1_1", "HTTP_2"})
    void aBodySentDuringTheDecisionArrivesCompletely(Version version) {
        KeySource slow = match -> Mono.delay(Duration.ofMillis(200)).thenReturn("slow");
        serve(
                Rule.named("slow").key(slow).limit(Limit.perMinute(1000)).timeout(PATIENCE),
                address("at-hand", 1000),
                Rule.named("after")
                        .key(slow)
                        .limit(Limit.perMinute(1000))
                        .timeout(PATIENCE)
                        .phase(Phase.AFTER_AUTHENTICATION));
        assertBodiesArriveCompletely(version);
    }

    @ParameterizedTest
    @EnumSource(
            value = Version.class,
            names = {"HTTP_1_1", "HTTP_2"})
    void aBodyArrivesCompletely(Version version) {
        serve(address("before", 1000), address("after", 1000).phase(Phase.AFTER_AUTHENTICATION));
        assertBodiesArriveCompletely(version);
    }

    private void assertBodiesArriveCompletely(Version version) {
        ClientForTests sending = version == Version.HTTP_2 ? http2() : client;
        sending.get("/hello");
        List<byte[]> bodies = IntStream.of(0, 1, 1000, 70_000, 1_000_000, 3_000_001, 4_000_000, 5_000_000)
                .mapToObj(HttpConnectionContract::body)
                .toList();
        List<CompletableFuture<HttpResponse<String>>> answers = bodies.stream()
                .map(body -> sending.sendLater(sending.request("/echo").POST(BodyPublishers.ofByteArray(body))))
                .toList();
        for (int i = 0; i < bodies.size(); i++) {
            HttpResponse<String> answer = answers.get(i).join();
            assertThat(answer.statusCode()).isEqualTo(200);
            assertThat(answer.body()).isEqualTo(HttpAdapter.echo(bodies.get(i)));
            assertThat(answer.version()).isEqualTo(version);
        }
    }

    private static byte[] body(int size) {
        byte[] body = new byte[size];
        new Random(size).nextBytes(body);
        return body;
    }

    @Test
    void theConnectionIsUsableAfterADeniedUpload() {
        serve(address("address", 1).methods("POST"));
        client.post("/echo", "a");
        String big = "0123456789abcdef".repeat(65_536);
        for (int i = 0; i < 5; i++) {
            assertThat(client.post("/echo", big).statusCode()).isEqualTo(429);
            assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        }
    }

    // The handler, and Redis.

    @Test
    void aHandlerSeesTheDecisions() {
        serve(address("before", 5), address("after", 3).phase(Phase.AFTER_AUTHENTICATION));
        assertThat(client.get("/decisions").body()).isEqualTo("allowed by REDIS, 4 left; allowed by REDIS, 2 left");
    }

    @Test
    void aHandlerSeesNoDecisionIfNoRuleMatched() {
        serve(address("address", 5).paths("/hello"));
        assertThat(client.get("/decisions").body()).isEmpty();
    }

    /** Redis is killed and comes back while requests do not pause: no client sees an error, or waits for long. */
    @Test
    void clientsAreServedDuringAnOutageOfRedis() {
        mayFallBack = true;
        try (RedisForTests redis = RedisForTests.startOwn();
                LimiterForTests own = LimiterForTests.on(redis, Duration.ofMillis(500));
                HttpAdapter.Server started = start(rules(own, address("address", 1_000_000)), RateLimitHeaders.all())) {
            Traffic traffic = new Traffic(ClientForTests.of(started.port()));
            traffic.awaitMore(Source.REDIS, 300);
            redis.kill();
            traffic.awaitMore(Source.LOCAL, 300);
            redis.restart();
            traffic.awaitMore(Source.REDIS, 300);
            traffic.end();
        }
    }

    /** Clients that send the next request as soon as they have a response. A request times out after 30 s. */
    private static final class Traffic {

        private static final int CLIENTS = 16;

        private final AtomicBoolean ending = new AtomicBoolean();
        private final Map<String, AtomicInteger> answers = new ConcurrentHashMap<>();
        private final CompletableFuture<Void> ended;

        Traffic(ClientForTests client) {
            ended = Flux.range(0, CLIENTS)
                    .flatMap(
                            i -> Mono.fromFuture(() -> client.sendLater(
                                            client.request("/decisions").GET()))
                                    .doOnNext(this::note)
                                    .repeat(() -> !ending.get()),
                            CLIENTS)
                    .then()
                    .toFuture();
        }

        private void note(HttpResponse<String> response) {
            assertThat(response.statusCode()).isIn(200, 429);
            if (response.statusCode() == 200) {
                String source = response.body().split("[ ,]", 4)[2];
                answers.computeIfAbsent(source, key -> new AtomicInteger()).incrementAndGet();
            }
        }

        /** Waits until so many more have been answered by this source, or a request has failed. */
        void awaitMore(Source source, int requests) {
            AtomicInteger seen = answers.computeIfAbsent(source.name(), key -> new AtomicInteger());
            int before = seen.get();
            await().atMost(PATIENCE)
                    .pollInterval(Duration.ofMillis(10))
                    .until(() -> ended.isDone() || seen.get() >= before + requests);
        }

        void end() {
            ending.set(true);
            assertThat(ended).succeedsWithin(PATIENCE);
        }
    }
}
