package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** Requests that a handler reroutes before, while or after the limiter decides. */
class RateLimitHandlerRerouteTest extends HandlerFixture {

    @Test
    void aRefundIsMadeAfterARerouteWithoutOurHandler() throws Exception {
        Rules rules = rules(local, address("login", 5).refundWhen("2xx"));
        start(router -> {
            router.get("/old").handler(RateLimitHandler.create(rules)).handler(ctx -> ctx.reroute("/new"));
            router.get("/new").handler(ctx -> end(ctx, "hello"));
        });

        assertThat(get("/old").statusCode()).isEqualTo(200);

        assertThat(remaining(rules, "login", "127.0.0.1")).isEqualTo(5);
    }

    @Test
    void anErrorPageAfterADenialIsNotDenied() throws Exception {
        RateLimitHandler limited =
                RateLimitHandler.create(rules(limiter, address("address", 1))).denials(DenialWriter.failing());
        start(router -> {
            router.get("/sorry").handler(limited).handler(ctx -> {
                Future<Void> unused = ctx.response().setStatusCode(429).end("sorry");
            });
            router.get("/hello")
                    .handler(limited)
                    .handler(ctx -> end(ctx, "hello"))
                    .failureHandler(ctx -> ctx.reroute("/sorry"));
        });
        get("/hello");

        HttpResponse<String> denied = get("/hello");

        assertThat(denied.body()).isEqualTo("sorry");
        assertThat(denied.headers().firstValue("Retry-After")).isPresent();
    }

    @Test
    void anErrorPageAfterAMissingKeyIsNotDenied() throws Exception {
        Rule.Builder keyed = Rule.named("key")
                .key(match -> Mono.justOrEmpty(
                        match.request().headers("X-Key").stream().findFirst()))
                .whenMissing(Rule.WhenMissing.DENY)
                .limit(Limit.perMinute(5));
        RateLimitHandler limited = RateLimitHandler.create(rules(local, keyed)).denials(DenialWriter.failing());
        start(router -> router.route()
                .handler(limited)
                .handler(ctx -> end(ctx, ctx.request().path()))
                .failureHandler(ctx -> ctx.reroute("/sorry")));

        assertThat(get("/hello").body()).isEqualTo("/sorry");
    }

    @Test
    void aRequestReroutedDuringTheDecisionIsHandledOnce() throws Exception {
        Rules rules = rules(local, lateKey());
        CompletableFuture<Promise<String>> page = new CompletableFuture<>();
        AtomicInteger reached = new AtomicInteger();
        start(router -> {
            router.get("/old").handler(RateLimitHandler.create(rules)).handler(ctx -> {
                reached.incrementAndGet();
                end(ctx, "old");
            });
            router.get("/new").handler(ctx -> {
                Promise<String> rendered = Promise.promise();
                rendered.future().onSuccess(text -> end(ctx, text));
                page.complete(rendered);
            });
        });
        CompletableFuture<HttpResponse<String>> response = getLater("/old");
        RoutingContext ctx = done(asked);
        onContext(ctx, () -> ctx.reroute("/new"));
        Promise<String> rendered = done(page);
        key.tryEmitValue("a");
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        ctx.vertx().setTimer(300, now -> rendered.complete("new"));
        assertThat(done(response).body()).isEqualTo("new");
        assertThat(reached).hasValue(0);
    }

    @Test
    void aRequestReroutedDuringTheDecisionMayBeDenied() throws Exception {
        Rules rules = rules(local, lateKey().cost(match -> Mono.just(11L)));
        AtomicInteger reached = new AtomicInteger();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            router.route().handler(ctx -> {
                reached.incrementAndGet();
                end(ctx, "hello");
            });
        });
        CompletableFuture<HttpResponse<String>> response = getLater("/old");
        RoutingContext ctx = done(asked);
        CompletableFuture<Void> moved = new CompletableFuture<>();
        onContext(ctx, () -> {
            ctx.reroute("/new");
            moved.complete(null);
        });
        done(moved);
        key.tryEmitValue("a");
        assertThat(done(response).statusCode()).isEqualTo(429);
        assertThat(reached).hasValue(0);
    }

    @Test
    void aRequestMayBeReroutedTwiceDuringTheDecision() throws Exception {
        Rules rules = rules(local, lateKey());
        Queue<String> reached = new ConcurrentLinkedQueue<>();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION));
            router.route().handler(BodyHandler.create(false));
            router.route().handler(ctx -> {
                reached.add(ctx.request().path() + " " + ctx.body().length());
                end(ctx, "hello");
            });
        });
        CompletableFuture<HttpResponse<String>> response =
                client.sendLater(client.request("/old").POST(BodyPublishers.ofString("12345")));
        RoutingContext ctx = done(asked);
        CompletableFuture<Void> moved = new CompletableFuture<>();
        onContext(ctx, () -> {
            ctx.reroute("/new");
            ctx.reroute("/newest");
            ctx.vertx().setTimer(100, now -> moved.complete(null));
        });
        done(moved);
        key.tryEmitValue("a");
        assertThat(done(response).body()).isEqualTo("hello");
        assertThat(done(response).headers().firstValue("X-RateLimit-Remaining")).contains("9");
        assertThat(reached).containsExactly("/newest 5");
    }
}
