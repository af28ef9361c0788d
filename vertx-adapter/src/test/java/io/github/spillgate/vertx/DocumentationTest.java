package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.github.spillgate.Limit;
import io.github.spillgate.http.WrongSettingException;
import io.github.spillgate.testkit.Snippets;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** What the pages show of Vert.x works, and its own page names every setting. */
class DocumentationTest {

    private static final Path PAGE = Path.of("..", "docs", "vertx.md");

    /** What the snippets take for granted. */
    private static final String AROUND = """
            import io.github.spillgate.*;
            import io.github.spillgate.http.*;
            import io.github.spillgate.http.Rule.Phase;
            import io.github.spillgate.metrics.*;
            import io.github.spillgate.vertx.*;
            import io.micrometer.core.instrument.MeterRegistry;
            import io.vertx.core.*;
            import io.vertx.core.buffer.Buffer;
            import io.vertx.core.eventbus.Message;
            import io.vertx.core.json.*;
            import io.vertx.ext.healthchecks.HealthChecks;
            import io.vertx.ext.web.*;
            import io.vertx.ext.web.handler.*;
            import java.util.*;

            abstract class Snippet {
                AuthenticationHandler authentication;

                interface Tenants {
                    Future<String> of(String token);

                    Future<List<Limit>> limits(String tenant);
                }

                abstract void login(RoutingContext ctx);

                abstract void send(Message<JsonObject> message);

            %s
            }
            """;

    @TempDir
    Path temp;

    private final Vertx vertx = Vertx.vertx();

    @AfterEach
    void close() throws Exception {
        vertx.close().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
    }

    @TestFactory
    Stream<DynamicTest> javaCompiles() throws IOException {
        return Snippets.all("java vertx").stream()
                .map(snippet -> DynamicTest.dynamicTest(
                        snippet.place(),
                        () -> Snippets.assertCompiles("Snippet", AROUND.formatted(snippet.text()), temp)));
    }

    @Test
    void settingsAreUnderstood() throws Exception {
        List<JsonObject> snippets = Snippets.all("json").stream()
                .map(snippet -> new JsonObject(snippet.text()))
                .toList();
        assertThat(snippets).hasSizeGreaterThan(2);
        for (JsonObject snippet : snippets) {
            JsonObject local = snippet.copy().put("store", "local");
            RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(local))
                    .key("tenant", FutureSources.key(ctx -> Future.succeededFuture("a")))
                    .limits("plans", FutureSources.limits((ctx, key) -> Future.succeededFuture(List.<Limit>of())))
                    .cost("size", FutureSources.cost(ctx -> Future.succeededFuture(1L)))
                    .unless("internal", match -> false)
                    .start();
            JsonArray rules = snippet.getJsonArray("rules");
            assertThat(limiting.rules().list()).hasSameSizeAs(rules);
            limiting.close().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
        }
    }

    @Test
    void everySettingIsNamed() throws IOException {
        String page = Files.readString(PAGE);
        for (String setting : known("", "{\"?\": 1}")) {
            if (!setting.equals("rules")) {
                assertThat(page).containsAnyOf("`" + setting + "`", "`" + setting + ".");
            }
        }
        for (String part : List.of("redis", "local", "client-address", "headers")) {
            for (String setting : known(part, "{\"" + part + "\": {\"?\": 1}}")) {
                assertThat(page).contains("`" + part + "." + setting + "`");
            }
        }
        for (String setting : known("rules[0]", "{\"rules\": [{\"?\": 1}]}")) {
            assertThat(page).contains("`" + setting + "`");
        }
    }

    /** Who writes a setting that does not exist is told of all that do. */
    private static List<String> known(String where, String json) {
        WrongSettingException wrong =
                catchThrowableOfType(WrongSettingException.class, () -> new RateLimitOptions(new JsonObject(json)));
        assertThat(wrong.setting()).startsWith(where).endsWith("?");
        return List.of(wrong.why().replaceFirst(".*expected one of ", "").split(", ", -1));
    }
}
