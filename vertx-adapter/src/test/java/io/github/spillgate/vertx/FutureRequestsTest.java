package io.github.spillgate.vertx;

import static io.github.spillgate.vertx.HandlerFixture.done;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.MoodyPartner;
import io.github.spillgate.testkit.MoodyPartner.Arrival;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.PoolOptions;
import io.vertx.core.internal.ContextInternal;
import io.vertx.core.internal.VertxInternal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class FutureRequestsTest {

    private final Vertx vertx = Vertx.vertx();
    private final MoodyPartner partner = new MoodyPartner(100_000);
    private final List<RateLimiter> limiters = new ArrayList<>();

    /** Two connections, which the refused responses of a thousand requests must not use up. */
    private final HttpClient client = vertx.createHttpClient(
            new HttpClientOptions().setDefaultPort(partner.uri("/").getPort()).setDefaultHost("127.0.0.1"),
            new PoolOptions().setHttp1MaxSize(2));

    @AfterEach
    void close() throws Exception {
        limiters.forEach(RateLimiter::close);
        done(vertx.close());
        partner.close();
    }

    @Test
    void aRefusedRequestIsSentAgainAndTheResponseArrivesOnTheContextOfTheCaller() throws Exception {
        partner.refuse(Duration.ofSeconds(1), "Retry-After:1");
        FutureRequests requests = requests(outgoing(limiter("100/s burst=1")).build());
        Queue<Context> contexts = new ConcurrentLinkedQueue<>();
        Promise<String> body = Promise.promise();
        Context context = vertx.getOrCreateContext();
        context.runOnContext(ignored -> requests.send("partner", true, () -> {
                    contexts.add(Vertx.currentContext());
                    return get();
                })
                .compose(response -> {
                    contexts.add(Vertx.currentContext());
                    return response.body();
                })
                .map(Object::toString)
                .onComplete(body));
        assertThat(done(body.future())).hasSize(2_000);
        assertThat(contexts).containsExactly(context, context, context);
        assertThat(partner.arrivals()).extracting(Arrival::status).containsExactly(429, 200);
    }

    @Test
    void theBodyOfEachRefusedResponseIsReleased() throws Exception {
        partner.refuse(Duration.ofHours(1), "Retry-After:1");
        FutureRequests requests = requests(outgoing(limiter("10000/s burst=100"))
                .longestPause(Duration.ofMillis(1))
                .build());
        for (int i = 0; i < 1_000; i++) {
            assertThatThrownBy(() -> done(requests.send("partner", false, this::get)))
                    .hasCauseInstanceOf(RateLimitedException.class);
        }
        assertThat(partner.arrivals()).hasSize(1_000);
    }

    @Test
    void aRequestIsSentTwiceOnlyByConsent() throws Exception {
        partner.refuse(Duration.ofHours(1), "Retry-After:1");
        FutureRequests requests = requests(outgoing(limiter("100/s burst=1")).build());
        assertThatThrownBy(() -> done(requests.send("partner", false, this::post)))
                .hasCauseInstanceOf(RateLimitedException.class);
        assertThat(partner.arrivals()).extracting(Arrival::body).containsExactly("order");
    }

    @Test
    void aPermitIsHeldUntilTheBodyHasEnded() throws Exception {
        RateLimiter limiter = limiter("1 concurrent hold=30s");
        FutureRequests requests = requests(outgoing(limiter).build());
        Promise<Void> end = Promise.promise();
        HttpServer server = done(vertx.createHttpServer()
                .requestHandler(request -> {
                    request.response().setChunked(true).write("begin");
                    end.future().onComplete(ended -> request.response().end());
                })
                .listen(0, "127.0.0.1"));
        Future<HttpClientResponse> response = requests.send(
                "partner",
                true,
                () -> client.request(HttpMethod.GET, server.actualPort(), "127.0.0.1", "/")
                        .compose(request -> request.send()));
        done(response);
        assertThat(limiter.holders()).isEqualTo(1);
        end.complete();
        await().until(() -> limiter.holders() == 0);
        done(requests.send("partner", true, this::get));
        await().until(() -> limiter.holders() == 0);
    }

    @Test
    void theResponseIsClosedIfItsPermitIsLost() throws Exception {
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(LocalStore.bounded(100))
                .limit(Limit.concurrent(1).hold(Duration.ofSeconds(1)))
                .limit(Limit.pausable())
                .longestHold(Duration.ofSeconds(1))
                .build();
        limiters.add(limiter);
        HttpServer server = done(vertx.createHttpServer()
                .requestHandler(request -> request.response().setChunked(true).write("begin"))
                .listen(0, "127.0.0.1"));
        FutureRequests requests = requests(outgoing(limiter).build());
        assertThatThrownBy(() -> done(requests.send(
                                "partner",
                                true,
                                () -> client.request(HttpMethod.GET, server.actualPort(), "127.0.0.1", "/")
                                        .compose(request -> request.send()))
                        .compose(HttpClientResponse::body)))
                .isNotNull()
                .isNotInstanceOf(HoldExpiredException.class);
        await().until(() -> limiter.holders() == 0);
    }

    @Test
    void aRequestThatFailsOrReturnsNoFutureReleasesItsPermit() throws Exception {
        RateLimiter limiter = limiter("1 concurrent hold=30s");
        FutureRequests requests = requests(outgoing(limiter).build());
        assertThatThrownBy(() -> done(requests.<HttpClientResponse>send("partner", true, () -> null)))
                .hasRootCauseInstanceOf(NullPointerException.class);
        assertThatThrownBy(
                        () -> done(requests.<HttpClientResponse>send("partner", true, () -> Future.failedFuture("x"))))
                .hasRootCauseMessage("x");
        done(requests.send("partner", true, this::get));
        await().until(() -> limiter.holders() == 0);
    }

    @Test
    void aBodyArrivesOnEachKindOfContext() throws Exception {
        FutureRequests requests =
                requests(outgoing(limiter("10000/s burst=100")).build());
        ContextInternal loop = (ContextInternal) vertx.getOrCreateContext();
        for (Context context : List.of(loop.duplicate(), ((VertxInternal) vertx).createWorkerContext())) {
            for (int i = 0; i < 200; i++) {
                Promise<String> body = Promise.promise();
                context.runOnContext(ignored -> requests.send("partner", true, this::get)
                        .compose(HttpClientResponse::body)
                        .map(Object::toString)
                        .onComplete(body));
                assertThat(done(body.future())).hasSize(2_000);
            }
        }
    }

    @Test
    void aFutureEndsWithoutAResponse() throws Exception {
        RateLimiter limiter = limiter("1 concurrent hold=30s");
        FutureRequests requests = requests(outgoing(limiter).build());
        assertThat(done(requests.<HttpClientResponse>send("partner", true, Future::succeededFuture)))
                .isNull();
        assertThat(limiter.holders()).isZero();
    }

    @Test
    void aFutureEndsAfterItsVertxWasClosed() throws Exception {
        FutureRequests requests = requests(outgoing(limiter("1/1h burst=1"))
                .longestWait(Duration.ofHours(12))
                .build());
        done(requests.send("partner", true, this::get));
        Future<HttpClientResponse> waiting = requests.send("partner", true, this::get);
        done(vertx.close());
        limiters.forEach(RateLimiter::close);
        assertThatThrownBy(() -> done(waiting)).hasCauseInstanceOf(IllegalStateException.class);
    }

    private Future<HttpClientResponse> get() {
        return client.request(HttpMethod.GET, "/").compose(request -> request.send());
    }

    private Future<HttpClientResponse> post() {
        return client.request(HttpMethod.POST, "/").compose(request -> request.send("order"));
    }

    private FutureRequests requests(OutgoingRequests outgoing) {
        return FutureRequests.of(vertx, outgoing);
    }

    private static OutgoingRequests.Builder outgoing(RateLimiter limiter) {
        return OutgoingRequests.builder(limiter);
    }

    private RateLimiter limiter(String limit) {
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(LocalStore.bounded(100))
                .limit(Limit.parse(limit))
                .limit(Limit.pausable())
                .build();
        limiters.add(limiter);
        return limiter;
    }
}
