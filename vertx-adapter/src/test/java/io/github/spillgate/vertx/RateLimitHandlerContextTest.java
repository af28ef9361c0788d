package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.ext.auth.User;
import io.vertx.ext.web.handler.SimpleAuthenticationHandler;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;

/** The context that a request goes on on, and the functions of a rule are called on. */
class RateLimitHandlerContextTest extends HandlerFixture {

    @Test
    void aRequestReturnsToItsContextFromAForeignThread() throws Exception {
        assertReturnsToItsContext(limiter);
    }

    @Test
    void aRequestReturnsToItsContextFromAForeignThreadWithALocalStore() throws Exception {
        assertReturnsToItsContext(local);
    }

    @Test
    void limitsAreLookedUpOnTheContextOfTheRequest() throws Exception {
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Rules rules = rules(
                local,
                Rule.named("tenant")
                        .timeout(LONG)
                        .limit(Limit.perMinute(5))
                        .key(FutureSources.key(
                                ctx -> Future.fromCompletionStage(CompletableFuture.supplyAsync(() -> "a", ELSEWHERE))))
                        .limits(FutureSources.limits((ctx, found) -> {
                            threads.add(Thread.currentThread().getName());
                            return Future.succeededFuture(List.of(Limit.perMinute(7)));
                        })));
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> end(ctx, "hello")));

        assertThat(get("/").statusCode()).isEqualTo(200);

        assertThat(threads).hasSize(1).allMatch(name -> name.startsWith("vert.x-eventloop"));
    }

    @Test
    void aBlockingHandlerIsLimited() throws Exception {
        Rules rules = rules(limiter, address("address", 3));
        start(router -> router.get("/hello")
                .blockingHandler(RateLimitHandler.create(rules), false)
                .handler(ctx -> end(ctx, "hello")));
        for (int i = 0; i < 3; i++) {
            assertThat(get("/hello").body()).isEqualTo("hello");
        }
        assertThat(get("/hello").statusCode()).isEqualTo(429);
    }

    private void assertReturnsToItsContext(RateLimiter limiter) throws Exception {
        Queue<Context> home = new ConcurrentLinkedQueue<>();
        Queue<Context> after = new ConcurrentLinkedQueue<>();
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Rules rules = rules(limiter, address("address", 100).phase(Phase.AFTER_AUTHENTICATION));
        start(router -> {
            router.route().handler(ctx -> {
                home.add(Vertx.currentContext());
                ctx.next();
            });
            router.route()
                    .handler(SimpleAuthenticationHandler.create()
                            .authenticate(ctx -> Future.fromCompletionStage(
                                    CompletableFuture.supplyAsync(() -> User.fromName("ann"), ELSEWHERE))))
                    .handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION))
                    .handler(ctx -> {
                        after.add(Vertx.currentContext());
                        threads.add(Thread.currentThread().getName());
                        end(ctx, "hello");
                    });
        });

        get("/");

        assertThat(threads).allMatch(name -> name.startsWith("vert.x-eventloop"));
        assertThat(after).containsExactlyElementsOf(home);
    }
}
