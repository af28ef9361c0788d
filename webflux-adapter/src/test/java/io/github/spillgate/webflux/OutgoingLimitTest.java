package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.WaitQueueCount;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.MoodyPartner;
import io.github.spillgate.testkit.MoodyPartner.Arrival;
import io.netty.util.ResourceLeakDetector;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpMethod;
import org.springframework.http.client.reactive.ReactorClientHttpConnector;
import org.springframework.web.reactive.function.BodyInserters;
import org.springframework.web.reactive.function.client.ClientRequest;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

class OutgoingLimitTest {

    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private final ConnectionProvider connections = ConnectionProvider.builder("outgoing")
            .maxConnections(2)
            .pendingAcquireTimeout(Duration.ofSeconds(20))
            .build();

    private final MoodyPartner partner = new MoodyPartner(100_000);
    private RateLimiter limiter = limiter("10000/s burst=100");

    @AfterEach
    void close() {
        limiter.close();
        connections.dispose();
        partner.close();
    }

    /** Reactor Netty also uses connections again whose responses were not read, so the bodies that end are counted. */
    @Test
    void theBodyOfEachRefusedResponseIsReleased() {
        ResourceLeakDetector.Level before = ResourceLeakDetector.getLevel();
        ResourceLeakDetector.setLevel(ResourceLeakDetector.Level.PARANOID);
        partner.refuse(Duration.ofHours(1), "Retry-After:1");
        AtomicInteger released = new AtomicInteger();
        WebClient client = client(OutgoingLimit.builder(limiter)
                        .longestPause(Duration.ofMillis(1))
                        .retry(request -> false)
                        .build())
                .mutate()
                .filter((request, next) -> next.exchange(request)
                        .map(response -> response.mutate()
                                .body(body -> body.doOnComplete(released::incrementAndGet))
                                .build()))
                .build();
        try (LogForTests log = LogForTests.listen()) {
            long refused = Flux.range(0, 1_000)
                    .flatMap(
                            i -> body(get(client))
                                    .thenReturn(0)
                                    .onErrorResume(RateLimitedException.class, e -> Mono.just(1)),
                            4)
                    .reduce(0, Integer::sum)
                    .block(PATIENCE);
            assertThat(refused).isEqualTo(1_000);
            assertThat(released).hasValue(1_000);
            System.gc();
            // Leaks are reported when the next buffers are allocated.
            Flux.range(0, 50)
                    .concatMap(i -> body(get(client)).onErrorComplete())
                    .blockLast(PATIENCE);
            assertThat(log.lines("LEAK")).isEmpty();
        } finally {
            ResourceLeakDetector.setLevel(before);
        }
        assertThat(partner.arrivals()).hasSize(1_050);
    }

    @Test
    void aRefusedGetIsSentAgainAndItsBodyArrives() {
        partner.refuse(Duration.ofSeconds(1), "RateLimit:\"default\";r=0;t=1");
        assertThat(body(get(client(OutgoingLimit.builder(limiter).build()))).block(PATIENCE))
                .hasSize(2_000);
        assertThat(partner.arrivals()).extracting(Arrival::status).containsExactly(429, 200);
    }

    @Test
    void aBodyIsSentTwiceOnlyByConsent() {
        partner.refuse(Duration.ofHours(1), "X-RateLimit-Reset:1");
        WebClient never = client(OutgoingLimit.builder(limiter)
                .longestPause(Duration.ofMillis(1))
                .build());
        assertThatThrownBy(() -> body(never.post().uri(partner.uri("/a")).bodyValue("order"))
                        .block(PATIENCE))
                .isInstanceOf(RateLimitedException.class);
        assertThatThrownBy(() -> body(never.method(HttpMethod.DELETE)
                                .uri(partner.uri("/b"))
                                .bodyValue("order"))
                        .block(PATIENCE))
                .isInstanceOf(RateLimitedException.class);
        assertThat(partner.arrivals()).extracting(Arrival::path).containsExactly("/a", "/b");
        partner.refuse(Duration.ofMillis(500), "X-RateLimit-Reset:1");
        WebClient again =
                client(OutgoingLimit.builder(limiter).retry(request -> true).build());
        body(again.post().uri(partner.uri("/c")).bodyValue("order")).block(PATIENCE);
        assertThat(partner.arrivals())
                .filteredOn(arrival -> arrival.path().equals("/c"))
                .extracting(Arrival::body, Arrival::status)
                .containsExactly(tuple("order", 429), tuple("order", 200));
    }

    @ParameterizedTest
    @CsvSource({
        "GET, true",
        "HEAD, true",
        "OPTIONS, true",
        "TRACE, true",
        "DELETE, true",
        "POST, false",
        "PUT, false",
        "PATCH, false",
    })
    void requestsWithoutABodyAreRepeatableByTheirMethod(String method, boolean repeatable) {
        ClientRequest request = ClientRequest.create(HttpMethod.valueOf(method), URI.create("http://a/"))
                .build();
        assertThat(OutgoingLimit.isRepeatable(request)).isEqualTo(repeatable);
        ClientRequest withBody = ClientRequest.from(request)
                .body(BodyInserters.fromValue("text"))
                .build();
        assertThat(OutgoingLimit.isRepeatable(withBody)).isFalse();
    }

    @ParameterizedTest
    @CsvSource({
        "https://API.partner.com/v1?key=secret, https://api.partner.com:443",
        "http://partner/, http://partner:80",
        "HTTP://user:password@partner:8080/, http://partner:8080",
        "http://user:password@my_partner/, http://my_partner:80",
        "http://[2001:db8::1]/, http://[2001:db8::1]:80",
        "/relative, null://null:80",
    })
    void theKeyIsTheOrigin(String url, String key) {
        assertThat(OutgoingLimit.origin(
                        ClientRequest.create(HttpMethod.GET, URI.create(url)).build()))
                .isEqualTo(key);
    }

    @Test
    void cancelledRequestsLeaveTheQueue() {
        limiter.close();
        limiter = limiter("1/1h burst=1");
        WebClient client = client(OutgoingLimit.builder(limiter)
                .key(request -> "partner")
                .longestWait(Duration.ofHours(12))
                .build());
        body(get(client)).block(PATIENCE);
        List<Disposable> calls = IntStream.range(0, 100)
                .mapToObj(i -> body(get(client)).subscribe())
                .toList();
        await().until(() -> WaitQueueCount.of(limiter) == 1);
        calls.forEach(Disposable::dispose);
        await().until(() -> WaitQueueCount.of(limiter) == 0);
        assertThat(partner.arrivals()).hasSize(1);
    }

    @Test
    void aPermitIsHeldUntilTheBodyHasBeenRead() {
        limiter.close();
        limiter = limiter("1 concurrent hold=30s");
        WebClient client = client(OutgoingLimit.builder(limiter).build());
        String body = get(client)
                .exchangeToMono(response -> {
                    assertThat(limiter.holders()).isEqualTo(1);
                    return response.bodyToMono(String.class);
                })
                .block(PATIENCE);
        assertThat(body).hasSize(2_000);
        await().until(() -> limiter.holders() == 0);
        get(client)
                .exchangeToMono(response -> Mono.never())
                .timeout(Duration.ofMillis(300), Mono.empty())
                .block(PATIENCE);
        await().until(() -> limiter.holders() == 0);
        partner.refuse(Duration.ofSeconds(1), "Retry-After:1");
        assertThat(get(client)
                        .retrieve()
                        .toBodilessEntity()
                        .block(PATIENCE)
                        .getStatusCode()
                        .value())
                .isEqualTo(200);
        await().until(() -> limiter.holders() == 0);
    }

    @Test
    void aBodyFailsIfItsPermitIsLost() {
        limiter.close();
        limiter = RateLimiter.builder("partner")
                .store(LocalStore.bounded(100))
                .limit(Limit.concurrent(1).hold(Duration.ofSeconds(1)))
                .limit(Limit.pausable())
                .longestHold(Duration.ofSeconds(1))
                .build();
        DisposableServer server = HttpServer.create()
                .port(0)
                .handle((request, response) ->
                        response.sendString(Flux.just("begin").concatWith(Flux.never()), StandardCharsets.UTF_8))
                .bindNow();
        try {
            WebClient client = client(
                    OutgoingLimit.builder(limiter).key(request -> "partner").build());
            Mono<String> call = client.get()
                    .uri("http://127.0.0.1:" + server.port())
                    .retrieve()
                    .bodyToMono(String.class);
            assertThatThrownBy(() -> call.block(PATIENCE)).hasRootCauseInstanceOf(HoldExpiredException.class);
            await().until(() -> limiter.holders() == 0);
        } finally {
            server.disposeNow();
        }
    }

    @Test
    void aPermitIsReleasedHoweverAResponseIsUsed() {
        limiter.close();
        limiter = limiter("1 concurrent hold=30s");
        WebClient client = client(OutgoingLimit.builder(limiter).build());
        assertThat(get(client)
                        .exchangeToMono(
                                response -> Mono.just(response.statusCode().value()))
                        .block(PATIENCE))
                .isEqualTo(200);
        await("unread").until(() -> limiter.holders() == 0);
        assertThatThrownBy(() -> get(client)
                        .exchangeToMono(response -> Mono.error(new IllegalStateException("mine")))
                        .block(PATIENCE))
                .hasMessage("mine");
        await("error").until(() -> limiter.holders() == 0);
        client.head().uri(partner.uri("/")).retrieve().toBodilessEntity().block(PATIENCE);
        await("head").until(() -> limiter.holders() == 0);
        get(client)
                .retrieve()
                .bodyToFlux(DataBuffer.class)
                .doOnNext(DataBufferUtils::release)
                .take(1)
                .blockLast(PATIENCE);
        await("take").until(() -> limiter.holders() == 0);
        get(client).retrieve().bodyToMono(Void.class).block(PATIENCE);
        await("void").until(() -> limiter.holders() == 0);
        assertThatThrownBy(() -> get(client)
                        .retrieve()
                        .onStatus(status -> true, response -> Mono.error(new IllegalStateException("status")))
                        .bodyToMono(String.class)
                        .block(PATIENCE))
                .hasMessage("status");
        await("onStatus").until(() -> limiter.holders() == 0);
        AtomicInteger arrived = new AtomicInteger();
        WebClient slow = client.mutate()
                .filters(all -> all.add(
                        0,
                        (request, next) -> next.exchange(request).flatMap(response -> {
                            arrived.incrementAndGet();
                            return Mono.never();
                        })))
                .build();
        Disposable call = body(get(slow)).subscribe();
        await("held").until(() -> arrived.get() == 1);
        assertThat(limiter.holders()).isEqualTo(1);
        call.dispose();
        await("cancelled before the body").until(() -> limiter.holders() == 0);
    }

    @Test
    void aRefusedResponseWithoutAnEndReleasesItsPermitAndConnection() {
        limiter.close();
        limiter = limiter("1 concurrent hold=30s");
        AtomicInteger closed = new AtomicInteger();
        DisposableServer server = HttpServer.create()
                .port(0)
                .doOnConnection(connection -> connection.onDispose(closed::incrementAndGet))
                .handle((request, response) -> response.status(429)
                        .header("Retry-After", "1")
                        .sendString(Flux.just("begin").concatWith(Flux.never()), StandardCharsets.UTF_8))
                .bindNow();
        try {
            WebClient client = client(
                    OutgoingLimit.builder(limiter).retry(request -> false).build());
            assertThatThrownBy(() -> client.get()
                            .uri("http://127.0.0.1:" + server.port())
                            .retrieve()
                            .bodyToMono(String.class)
                            .block(PATIENCE))
                    .isInstanceOf(RateLimitedException.class);
            await().until(() -> limiter.holders() == 0);
            await().until(() -> closed.get() == 1);
        } finally {
            server.disposeNow();
        }
    }

    @Test
    void theResponseIsEmittedWhereItArrivesAndTheContextIsKept() {
        partner.refuse(Duration.ofMillis(500), "Retry-After:1");
        List<String> seen = new CopyOnWriteArrayList<>();
        WebClient client = client(OutgoingLimit.builder(limiter).build())
                .mutate()
                .filter((request, next) -> Mono.deferContextual(view -> {
                    seen.add(view.getOrDefault("a", "none"));
                    return next.exchange(request);
                }))
                .build();
        String thread = get(client)
                .exchangeToMono(response ->
                        response.releaseBody().thenReturn(Thread.currentThread().getName()))
                .contextWrite(view -> view.put("a", "b"))
                .block(PATIENCE);
        assertThat(thread).contains("reactor-http");
        assertThat(seen).containsExactly("b", "b");
    }

    private static RateLimiter limiter(String limit) {
        return RateLimiter.builder("partner")
                .store(LocalStore.bounded(100))
                .limit(Limit.parse(limit))
                .limit(Limit.pausable())
                .build();
    }

    private WebClient client(OutgoingLimit limit) {
        return WebClient.builder()
                .clientConnector(new ReactorClientHttpConnector(HttpClient.create(connections)))
                .filter(limit)
                .build();
    }

    private WebClient.RequestHeadersSpec<?> get(WebClient client) {
        return client.get().uri(partner.uri("/"));
    }

    private static Mono<String> body(WebClient.RequestHeadersSpec<?> request) {
        return request.retrieve().bodyToMono(String.class);
    }
}
