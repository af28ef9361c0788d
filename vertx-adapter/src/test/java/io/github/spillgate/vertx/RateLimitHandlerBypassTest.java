package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Rules;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Paths and preflights that a client writes so as to bypass a rule. */
class RateLimitHandlerBypassTest extends HandlerFixture {

    @Test
    void aPathThatCannotBeDecodedIsAMistakeOfTheClient() throws Exception {
        RateLimitHandler limited = RateLimitHandler.create(rules(local, address("address", 5)));
        start(router -> router.route().handler(limited).handler(ctx -> end(ctx, "hello")));
        assertThat(client.statusLine("/v1/%zz")).startsWith("HTTP/1.1 400");
    }

    @Test
    void noSpellingOfAPathBypassesARule() throws Exception {
        Rules rules = rules(
                local,
                address("login", 1_000).paths("/api/login"),
                address("user", 1_000).paths("/api/users/:id"),
                address("file", 1_000).paths("/api/files/:id.:ext"),
                address("dir", 1_000).paths("/api/dir/*"),
                address("sub", 1_000).paths("/t/:tenant/login"),
                address("plus", 1_000).paths("/api/a+b(c)$.d"));
        AtomicInteger reached = new AtomicInteger();
        Queue<String> around = new ConcurrentLinkedQueue<>();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            Router sub = Router.router(vertx);
            io.vertx.core.Handler<RoutingContext> seen = ctx -> {
                reached.incrementAndGet();
                if (RateLimitHandler.decisions(ctx).isEmpty()) {
                    around.add(ctx.request().uri() + " at " + ctx.currentRoute().getName());
                }
                end(ctx, "hello");
            };
            sub.route("/login").handler(seen);
            sub.route("/users/:id").handler(seen);
            sub.route("/files/:id.:ext").handler(seen);
            sub.route("/dir/*").handler(seen);
            sub.route("/a+b(c)$.d").handler(seen);
            router.route("/api/*").subRouter(sub);
            Router tenants = Router.router(vertx);
            tenants.route("/login").handler(seen);
            router.route("/t/:tenant/*").subRouter(tenants);
        });
        for (String path : List.of(
                "/api/login",
                "/api/login/",
                "/api/login//",
                "/api//login",
                "//api/login",
                "/api/./login",
                "/api/x/../login",
                "/api/%6Cogin",
                "/api/%6cogin",
                "/api/login/.",
                "/api/login/..",
                "/api/login;x=1",
                "/api/login%2F",
                "/api/login%2f",
                "/api/LOGIN",
                "/API/login",
                "/api/%2e/login",
                "/api/x/%2e%2e/login",
                "/api%2Flogin",
                "/api/login?",
                "/api/login?x=/y",
                "/api/login#x",
                "/api/users/1",
                "/api/users/1/",
                "/api/users/1//",
                "/api/users/%2F",
                "/api/users/a%20b",
                "/api/users/%0A",
                "/api/users/a;b",
                "/api/users/..%2f",
                "/api/users/.",
                "/api/users/%C3%A9",
                "/api/users/\u00e9",
                "/api/files/a.b",
                "/api/files/a.b.c",
                "/api/files/a.b/",
                "/api/files/%2E.b",
                "/api/dir",
                "/api/dir/",
                "/api/dir/x/y",
                "/api/dir//",
                "/api/dir%2Fx",
                "/api/dir/%0A/x",
                "/api/dir/..;/x",
                "/t/a/login",
                "/t/a/login/",
                "/t/a//login",
                "/t/%2F/login",
                "/t/a%2Flogin/login",
                "/t//a/login",
                "/t/a;x/login",
                "/api/a+b(c)$.d",
                "/api/a%2Bb(c)$.d",
                "http://x/api/login",
                "http://x//api/login")) {
            try {
                client.statusLine(path);
            } catch (UncheckedIOException e) {
                // refused
            }
        }
        assertThat(around).isEmpty();
        assertThat(reached).hasValueGreaterThan(40);
    }

    @Test
    void aForgedPreflightDoesNotBypassALimit() throws Exception {
        RateLimitHandler limited = RateLimitHandler.create(rules(local, address("address", 1)));
        // A route without a method takes all of them.
        start(router -> router.route("/search").handler(limited).handler(ctx -> end(ctx, "found")));
        String[] asking = {
            "OPTIONS /search HTTP/1.1", "Host: x", "Origin: http://a.example", "Access-Control-Request-Method: GET"
        };
        assertThat(client.answerTo(asking)).startsWith("HTTP/1.1 200");
        assertThat(client.answerTo(asking)).startsWith("HTTP/1.1 429");
    }
}
