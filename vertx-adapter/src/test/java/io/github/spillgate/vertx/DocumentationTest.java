package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.ShownResponse;
import io.github.spillgate.testkit.ShownTests;
import io.github.spillgate.testkit.Snippets;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** What the pages show of Vert.x works. {@code SettingsPageTest} checks the settings. */
class DocumentationTest {

    private static final Path DOCS = Path.of("..", "docs");
    private static final Path PAGE = DOCS.resolve("vertx.md");

    /** What the snippets take for granted. */
    private static final String IMPORTS = """
            import static org.junit.jupiter.api.Assertions.assertEquals;

            import io.github.spillgate.*;
            import io.github.spillgate.http.*;
            import io.github.spillgate.http.address.*;
            import io.github.spillgate.http.client.*;
            import io.github.spillgate.http.response.*;
            import io.github.spillgate.http.settings.*;
            import io.github.spillgate.http.Rule.Phase;
            import io.github.spillgate.local.CachedLimits;
            import io.github.spillgate.metrics.*;
            import io.github.spillgate.vertx.*;
            import io.micrometer.core.instrument.MeterRegistry;
            import io.vertx.config.*;
            import io.vertx.core.*;
            import io.vertx.core.buffer.Buffer;
            import io.vertx.core.eventbus.Message;
            import io.vertx.core.json.*;
            import io.vertx.core.streams.ReadStream;
            import io.vertx.ext.healthchecks.HealthChecks;
            import io.vertx.ext.web.*;
            import io.vertx.ext.web.handler.*;
            import io.vertx.core.http.HttpClientAgent;
            import io.vertx.core.http.HttpClientRequest;
            import io.vertx.core.http.HttpClientResponse;
            import io.vertx.core.http.HttpMethod;
            import io.vertx.core.http.HttpServer;
            import io.vertx.core.http.HttpServerRequest;
            import java.net.URI;
            import java.net.http.HttpClient;
            import java.net.http.HttpRequest;
            import java.net.http.HttpResponse.BodyHandlers;
            import java.time.Duration;
            import java.util.*;
            import java.util.concurrent.atomic.AtomicLong;
            import java.util.stream.Stream;
            import org.junit.jupiter.api.*;
            import reactor.core.publisher.Mono;

            """;

    private static final String AROUND = IMPORTS + """
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

    /** The one place of the first steps that is not as it is shown: a port that is free, which is told. */
    private static final String LISTENS = "vertx.createHttpServer().requestHandler(router).listen(8080).await();";

    private static final String LISTENS_AND_TELLS = "System.out.println(\"port \" + "
            + "vertx.createHttpServer().requestHandler(router).listen(0).await().actualPort());";

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
                .filter(snippet -> !snippet.isFile())
                .map(snippet -> DynamicTest.dynamicTest(
                        snippet.place(),
                        () -> Snippets.assertCompiles("Snippet", AROUND.formatted(snippet.text()), temp)));
    }

    @Test
    void theGettingStartedPageShowsTheActualResponses() throws Exception {
        Path page = DOCS.resolve("getting-started-vertx.md");
        List<ShownResponse> shown = ShownResponse.on(Snippets.of(page, "text"));
        assertThat(shown).extracting(ShownResponse::status).containsExactly(200, 429);
        List<String> files = Snippets.of(page, "java vertx");
        assertThat(files).hasSize(1).first(InstanceOfAssertFactories.STRING).contains(LISTENS);
        Snippets.assertCompiles("Hello", files.get(0).replace(LISTENS, LISTENS_AND_TELLS), temp);
        Process service = java("com.example.hello.Hello")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            ClientForTests client = ClientForTests.of(port(service));
            List<ClientForTests.Answer> answers = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                answers.addAll(client.pipelined(List.of("/hello")));
            }
            shown.get(0).assertIs(answers.get(0));
            shown.get(1).assertIs(answers.get(3));
        } finally {
            service.destroyForcibly().waitFor();
        }
    }

    @Test
    void theShownServiceRunsAndEndsWithAnErrorIfItCannotStart() throws Exception {
        String shown = Snippets.all("java vertx").stream()
                .filter(snippet -> snippet.isFile() && snippet.page().endsWith(PAGE.getFileName()))
                .map(Snippets.Snippet::text)
                .findFirst()
                .orElseThrow();
        String listens = ".listen(config().getInteger(\"port\"))";
        assertThat(shown).contains(listens);
        Snippets.assertCompiles(
                "Main",
                shown.replace(listens, listens + ".onSuccess(it -> System.out.println(\"port \" + it.actualPort()))"),
                temp);
        // Nothing listens at the address of Redis. So it connects for a while, on threads that keep no JVM running.
        JsonObject limiter = new JsonObject("""
            {"name": "orders", "redis": {"uri": "redis://localhost:1"}, "rules": [{"name": "all", "limits": "9/1m"}]}
            """);
        Path config = temp.resolve("config.json");
        Files.writeString(
                config, new JsonObject().put("port", 0).put("limiter", limiter).encode());
        Process service = java("com.example.orders.Main")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            int port = port(service);
            assertThat(ClientForTests.of(port).pipelined(List.of("/v1/orders")))
                    .singleElement()
                    .satisfies(answer -> assertThat(answer.status()).isEqualTo(200));
            Files.writeString(
                    config,
                    new JsonObject().put("port", port).put("limiter", limiter).encode());
            Process second =
                    java("com.example.orders.Main").redirectErrorStream(true).start();
            String output = new String(second.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(second.waitFor()).as(output).isOne();
            assertThat(output).contains("BindException");
            service.destroy();
            assertThat(service.waitFor(60, TimeUnit.SECONDS))
                    .as("its shutdown ends")
                    .isTrue();
        } finally {
            service.destroyForcibly().waitFor();
        }
    }

    private ProcessBuilder java(String main) {
        return new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                temp + System.getProperty("path.separator") + System.getProperty("java.class.path"),
                main);
    }

    private static int port(Process service) throws IOException {
        BufferedReader output = service.inputReader();
        for (String line = output.readLine(); line != null; line = output.readLine()) {
            if (line.startsWith("port ")) {
                return Integer.parseInt(line.substring("port ".length()));
            }
        }
        throw new AssertionError("it ended before it listened");
    }

    @Test
    void theTestThatIsShownPasses() throws Exception {
        List<String> tests = Snippets.of(DOCS.resolve("testing.md"), "java vertx");
        assertThat(tests).hasSize(1);
        Snippets.assertCompiles("HelloTest", tests.get(0), temp);
        ShownTests.assertPass("HelloTest", temp);
    }

    @Test
    void settingsAreUnderstood() throws Exception {
        List<JsonObject> snippets = Snippets.all("json").stream()
                .map(snippet -> new JsonObject(snippet.text()))
                .toList();
        assertThat(snippets).hasSizeGreaterThan(1);
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
}
