package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.vertx.RateLimitOptions.StoreType;
import io.lettuce.core.RedisURI;
import io.vertx.config.ConfigRetriever;
import io.vertx.config.ConfigRetrieverOptions;
import io.vertx.config.ConfigStoreOptions;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.RoutingContext;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A running service gets new rules from other options. */
class ReplaceRulesTest extends HandlerFixture {

    private final Queue<RoutingContext> held = new ConcurrentLinkedQueue<>();

    @Test
    void newRulesApplyAtOnceAndKeepTheCounts() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, local("replaced", Limit.perHour(2)))
                .key("one", FutureSources.key(ctx -> Future.succeededFuture("one")))
                .start();
        serve(limiting);
        assertThat(statuses(3)).containsExactly(200, 200, 429);
        try (LogForTests log = LogForTests.listen()) {
            limiting.replaceRules(new RateLimitOptions(new JsonObject("""
                            {"rules": [{"name": "all", "limits": "3/1h"}, {"name": "one", "key": "bean:one", "limits": "9/1h"}]}
                            """)));
            assertThat(log.lines("RateLimiter[replaced,"))
                    .singleElement()
                    .asString()
                    .contains("Rules [all: 3/1h; one: 9/1h] use RateLimiter[replaced,");
        }
        assertThat(statuses(2)).containsExactly(200, 429);
        limiting.replaceRules(new RateLimitOptions().setRules(List.of()));
        assertThat(statuses(2)).as("no rule is a rule for none").containsExactly(200, 200);
        done(limiting.close());
    }

    /** All other settings may be there, if they are those of the start, in any spelling. */
    @Test
    void unchangedSettingsMayBeRepeated() throws Exception {
        RateLimiting limiting =
                RateLimiting.of(vertx, local("repeated", Limit.perHour(1))).start();
        limiting.replaceRules(new RateLimitOptions(new JsonObject("""
                        {"name": "repeated", "store": "LOCAL", "deadline": "0.1s", "readyTimeout": "2s", "secret": null,
                         "local": {"share": null, "counts": 100000}, "headers": {},
                         "rules": [{"name": "all", "limits": "2/1h"}]}
                        """)));
        assertThat(limits(limiting)).containsExactly(2L);
        done(limiting.close());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    {"name": "kept"}                                       | rules: there are none: expected those that replace the current ones, for example [{"name": "address", "limits": "120/1m"}], or [] to limit nothing
                    {"rules": null}                                        | rules: there are none
                    {"rules": [], "deadline": "50ms"}                      | deadline: found "0.05s": only a restart can change it: expected "0.1s", as at the start
                    {"rules": [], "headers": {"retry-after": false}}       | headers.retry-after: found false: only a restart can change it: expected true, as at the start
                    {"rules": [], "local": {"share": 0.5}}                 | local.share: found 0.5: only a restart can change it: expected null, as at the start
                    {"rules": [], "client-address": {"trusted-proxies": "10.0.0.1"}} | client-address.trusted-proxies: found ["10.0.0.1"]: only a restart can change it: expected [], as at the start
                    {"rules": [], "enabled": false}                        | enabled: found false: only a restart can change it: expected true, as at the start
                    {"rules": [], "name": "other"}                         | name: found "other": only a restart can change it: expected "kept", as at the start
                    {"rules": [], "redis": {"uri": "redis://:pw@host"}}    | redis.uri: found …: only a restart can change it: expected the same one, as at the start
                    {"rules": [], "redis": {"namespace": "other"}}         | redis.namespace: found "other": only a restart can change it: expected "spillgate"
                    {"rules": [], "store": "auto"}                         | store: found "auto": only a restart can change it: expected "local", as at the start
                    {"rules": [{"name": "all", "limits": "often"}]}        | rules[0].limits: rule "all":
                    {"rules": [{"name": "all", "limits": "9/1h", "paths": "hello"}]} | rules[0].paths[0]: rule "all":
                    {"rules": [{"name": "all", "limits": "9/1h"}, {"name": "all", "limits": "9/1h"}]} | rules[1].name:
                    {"rules": [{"name": "a", "limits": "9/1h"}, {"name": "b", "limits": "5/1h", "key": "bean:none"}]} | rules[1].key:
                    {"rules": [{"name": "all", "limits": "9/1h"}], "rulez": []} | rulez: there is no such setting: did you mean rules?
                    """)
    void wrongOptionsChangeNothing(String json, String why) throws Exception {
        RateLimiting limiting =
                RateLimiting.of(vertx, local("kept", Limit.perHour(2))).start();
        serve(limiting);
        assertThat(statuses(1)).containsExactly(200);
        assertThatThrownBy(() -> limiting.replaceRules(new RateLimitOptions(new JsonObject(json))))
                .isInstanceOf(WrongSettingException.class)
                .hasMessageStartingWith(why)
                .hasMessageNotContaining("pw");
        assertThat(statuses(2)).containsExactly(200, 429);
        done(limiting.close());
    }

    /** As on docs/vertx.md. */
    @Test
    void rulesFollowAFile(@TempDir Path directory) throws Exception {
        Path file = directory.resolve("limits.json");
        RateLimitOptions options = local("file", Limit.perHour(1));
        write(file, options.toJson());
        RateLimiting limiting = RateLimiting.of(vertx, options).start();
        serve(limiting);
        ConfigStoreOptions store = new ConfigStoreOptions()
                .setType("file")
                .setOptional(true)
                .setConfig(new JsonObject().put("path", file.toString()));
        ConfigRetriever retriever = ConfigRetriever.create(
                vertx, new ConfigRetrieverOptions().addStore(store).setScanPeriod(50));
        Queue<String> refused = new ConcurrentLinkedQueue<>();
        retriever.listen(change -> {
            try {
                limiting.replaceRules(new RateLimitOptions(change.getNewConfiguration()));
            } catch (WrongSettingException e) {
                refused.add(e.getMessage());
            }
        });
        assertThat(statuses(2)).containsExactly(200, 429);

        write(
                file,
                options.setRules(List.of(new RuleOptions().setName("all").setPaths("hello")))
                        .toJson());
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(refused)
                        .anyMatch(why -> why.startsWith("rules[0].paths[0]: rule \"all\": ")
                                && why.contains("does not begin with a slash")));
        Files.delete(file);
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(refused).anyMatch(why -> why.startsWith("rules: there are none")));
        assertThat(statuses(1)).as("the rules of the start apply").containsExactly(429);

        write(file, local("file", Limit.perHour(3)).toJson());
        await().atMost(LONG).until(() -> limits(limiting).equals(List.of(3L)));
        assertThat(statuses(3)).containsExactly(200, 200, 429);
        done(retriever.close());
        done(limiting.close());
    }

    /** Replaces the file at once, so that no half of it is read. */
    private static void write(Path file, JsonObject json) throws IOException {
        Path next = Files.writeString(file.resolveSibling("next.json"), json.encode());
        Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
    }

    @Test
    void aDecisionInFlightEndsUnderTheRulesWithWhichItBegan() throws Exception {
        Promise<String> tenant = Promise.promise();
        RateLimitOptions options = onRedis(new RuleOptions()
                .setName("tenant")
                .setKey("bean:tenant")
                .setLimits(Limit.perHour(5))
                .setTimeout(LONG));
        RateLimiting limiting = RateLimiting.of(vertx, options)
                .key("tenant", FutureSources.key(ctx -> {
                    asked.complete(ctx);
                    return tenant.future();
                }))
                .start();
        done(limiting.ready());
        serve(limiting);
        CompletableFuture<HttpResponse<String>> first = getLater("/now");
        done(asked);
        limiting.replaceRules(
                new RateLimitOptions().addRule(options.getRules().get(0).setLimits(Limit.perHour(1))));
        tenant.complete("ann");
        assertThat(done(first).statusCode()).isEqualTo(200);
        assertThat(done(first).headers().firstValue("X-RateLimit-Limit")).hasValue("5");
        HttpResponse<String> second = get("/now");
        assertThat(second.statusCode()).as("the permit of the first is kept").isEqualTo(429);
        assertThat(second.headers().firstValue("X-RateLimit-Limit")).hasValue("1");
        done(limiting.close());
    }

    @Test
    void permitsAreHeldUntilTheResponseHasEnded() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx, onRedis(new RuleOptions().setName("all").setLimits(Limit.concurrent(1))))
                .start();
        done(limiting.ready());
        serve(limiting);
        CompletableFuture<HttpResponse<String>> first = hold(1);
        assertThat(statuses(1)).containsExactly(429);
        limiting.replaceRules(concurrent(2));
        CompletableFuture<HttpResponse<String>> second = hold(2);
        assertThat(statuses(1)).containsExactly(429);
        limiting.replaceRules(concurrent(1));
        endFirst();
        assertThat(done(first).statusCode()).isEqualTo(200);
        assertThat(statuses(1)).as("the second still holds one").containsExactly(429);
        endFirst();
        assertThat(done(second).statusCode()).isEqualTo(200);
        await().atMost(LONG).until(() -> statuses(1).equals(List.of(200)));
        done(limiting.close());
    }

    @Test
    void waitersGetTheirPermits() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx, onRedis(new RuleOptions().setName("all").setLimits(Limit.perHour(1))))
                .start();
        done(limiting.ready());
        Charge job = Charge.of("job", Limit.concurrent(1));
        FutureRateLimiter limits = limiting.futures();
        Decision holder = done(limits.acquire(List.of(job), LONG));
        CompletableFuture<Decision> waiter =
                limits.acquire(List.of(job), LONG).toCompletionStage().toCompletableFuture();
        limiting.replaceRules(new RateLimitOptions().setRules(List.of()));
        assertThat(waiter).isNotDone();
        done(limits.release(holder));
        assertThat(done(waiter).isAllowed()).isTrue();
        done(limiting.close());
    }

    private static RateLimitOptions local(String name, Limit limit) {
        return new RateLimitOptions()
                .setName(name)
                .setStore(StoreType.LOCAL)
                .addRule(new RuleOptions().setName("all").setLimits(limit));
    }

    private static RateLimitOptions onRedis(RuleOptions rule) {
        RedisURI uri = RedisForTests.first().uri();
        return new RateLimitOptions()
                .setName("test-" + UUID.randomUUID())
                .setRedisUri("redis://" + uri.getHost() + ":" + uri.getPort())
                .setDeadline(Duration.ofSeconds(5))
                .addRule(rule);
    }

    private static RateLimitOptions concurrent(int permits) {
        return new RateLimitOptions().addRule(new RuleOptions().setName("all").setLimits(Limit.concurrent(permits)));
    }

    /** Serves {@code /now}, which ends at once, and {@code /hold}, which the test ends. */
    private void serve(RateLimiting limiting) throws Exception {
        start(router -> {
            router.route().handler(limiting.handler());
            router.get("/now").handler(ctx -> end(ctx, "now"));
            router.get("/hold").handler(held::add);
        });
    }

    private List<Integer> statuses(int requests) {
        return Stream.generate(() -> get("/now").statusCode()).limit(requests).toList();
    }

    private CompletableFuture<HttpResponse<String>> hold(int held) {
        CompletableFuture<HttpResponse<String>> response = getLater("/hold");
        await().atMost(LONG).until(() -> this.held.size() == held);
        return response;
    }

    private void endFirst() {
        RoutingContext ctx = held.remove();
        onContext(ctx, () -> end(ctx, "held"));
    }

    private static List<Long> limits(RateLimiting limiting) {
        return limiting.rules().list().stream()
                .flatMap(rule -> rule.limits().stream())
                .map(Limit::permits)
                .toList();
    }
}
