package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.vertx.core.Context;
import io.vertx.core.Vertx;
import io.vertx.ext.web.RoutingContext;
import java.net.http.HttpResponse;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** A handler keeps nothing with a request that no rule matches, and passes it on at once. */
class RateLimitHandlerUnmatchedTest extends HandlerFixture {

    @Test
    void unmatchedRequestCarriesNoState() throws Exception {
        Rules rules = rules(local, address("address", 5).paths("/limited"));
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION));
            router.route().handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION));
            router.route().handler(ctx -> end(ctx, String.valueOf(LimitedRequest.isPresent(ctx))));
        });
        assertThat(get("/free").body()).isEqualTo("false");
        assertThat(get("/limited").body()).isEqualTo("true");
    }

    @Test
    void disabledRulesKeepNoState() throws Exception {
        Rules off = Rules.off(local, RoutePaths.ofVertx());
        start(router -> {
            router.route().handler(RateLimitHandler.create(off));
            router.route().handler(ctx -> end(ctx, String.valueOf(LimitedRequest.isPresent(ctx))));
        });
        assertThat(get("/free").body()).isEqualTo("false");
    }

    @Test
    void unmatchedRequestFromAnotherThreadReturnsToItsContext() throws Exception {
        Queue<Context> before = new ConcurrentLinkedQueue<>();
        Queue<Context> after = new ConcurrentLinkedQueue<>();
        Rules rules = rules(local, address("address", 5).paths("/limited"));
        start(router -> {
            router.route().handler(ctx -> {
                before.add(Vertx.currentContext());
                ELSEWHERE.execute(ctx::next);
            });
            router.route().handler(RateLimitHandler.create(rules));
            router.route().handler(ctx -> {
                after.add(Vertx.currentContext());
                end(ctx, "hello");
            });
        });
        assertThat(get("/free").body()).isEqualTo("hello");
        assertThat(after).containsExactlyElementsOf(before).doesNotContainNull();
    }

    @Test
    void requestReroutedToAnUnmatchedPathWaitsForTheDecision() throws Exception {
        Rules rules = rules(local, lateKey().paths("/old"));
        AtomicInteger reached = new AtomicInteger();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            router.route().handler(ctx -> {
                reached.incrementAndGet();
                end(ctx, ctx.request().path());
            });
        });
        CompletableFuture<HttpResponse<String>> response = getLater("/old");
        RoutingContext ctx = done(asked);
        CompletableFuture<Integer> reachedByReroute = new CompletableFuture<>();
        onContext(ctx, () -> {
            ctx.reroute("/new");
            reachedByReroute.complete(reached.get());
        });
        assertThat(done(reachedByReroute)).isZero();
        key.tryEmitValue("a");
        assertThat(done(response).body()).isEqualTo("/new");
        assertThat(done(response).headers().firstValue("X-RateLimit-Remaining")).contains("9");
        assertThat(reached).hasValue(1);
    }
}
