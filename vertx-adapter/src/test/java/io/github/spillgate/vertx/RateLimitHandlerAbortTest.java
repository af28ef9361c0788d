package io.github.spillgate.vertx;

import static io.github.spillgate.testkit.AbortedRequest.rawGet;
import static io.github.spillgate.testkit.AbortedRequest.rawPost;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.AbortedRequest;
import io.github.spillgate.testkit.ClientForTests;
import io.netty.channel.ChannelFuture;
import io.netty.util.concurrent.DefaultPromise;
import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientRequest;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.impl.HttpServerConnection;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.FileSystemAccess;
import io.vertx.ext.web.handler.StaticHandler;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Clients that abort a request at each of its stages. None of them holds a permit any longer; the hold time is so long
 * that none expires.
 */
class RateLimitHandlerAbortTest extends HandlerFixture {

    private static final int PERMITS = 3;

    private static final String PART = "part".repeat(10_000);

    @TempDir
    Path directory;

    private final AtomicInteger begun = new AtomicInteger();
    private final Rules rules = rules(
            local,
            Rule.named("running")
                    .key(KeySource.constant("all"))
                    .limit(Limit.concurrent(PERMITS).hold(Duration.ofHours(1)).named("c")),
            Rule.named("bytes")
                    .paths("/file")
                    .key(KeySource.constant("all"))
                    .limit(Limit.perHour(1_000).named("b")),
            lateKey().paths("/late"));

    @BeforeEach
    void start() throws Exception {
        AbortedRequest.writeLargeFile(directory.resolve("large.bin"));
        start(this::routes);
    }

    private void routes(Router router) {
        router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> {
            begun.incrementAndGet();
            ctx.next();
        });
        router.route("/file").handler(ctx -> {
            RateLimitHandler.cost(ctx, "bytes", 7);
            Future<Void> unused =
                    ctx.response().sendFile(directory.resolve("large.bin").toString());
        });
        router.route("/static/*").handler(StaticHandler.create(FileSystemAccess.ROOT, directory.toString()));
        router.route("/stream").handler(this::stream);
        router.route("/own").handler(ctx -> {
            // Replaces the one of Vert.x Web.
            ctx.response().closeHandler(closed -> {});
            stream(ctx);
        });
        router.route("/upload")
                .handler(ctx -> ctx.request().handler(part -> {}).endHandler(read -> end(ctx, "uploaded")));
        router.route("/socket").handler(ctx -> ctx.request().toWebSocket());
        router.route("/tunnel").handler(ctx -> ctx.request().toNetSocket());
        router.route("/hello").handler(ctx -> end(ctx, "hello"));
        // Nothing answers /wait and /late.
        router.route().handler(ctx -> {});
    }

    private void stream(RoutingContext ctx) {
        ctx.response().setChunked(true);
        vertx.setPeriodic(1, timer -> {
            if (ctx.response().closed()) {
                vertx.cancelTimer(timer);
            } else if (!ctx.response().writeQueueFull()) {
                ctx.response().write(PART);
            }
        });
    }

    static Stream<Arguments> stages() {
        String upgrade = "Connection: Upgrade\r\nUpgrade: ";
        return AbortedRequest.closedAndReset(
                new AbortedRequest("decision", rawGet("/late", ""), false),
                new AbortedRequest("body", rawPost("/upload", ""), false),
                new AbortedRequest("half a body", rawPost("/upload", "half"), false),
                new AbortedRequest("body that is not read", rawPost("/wait", ""), false),
                new AbortedRequest("handler", rawGet("/wait", ""), false),
                new AbortedRequest("stream", rawGet("/stream", ""), true),
                new AbortedRequest("stream with a close handler", rawGet("/own", ""), true),
                new AbortedRequest("file", rawGet("/file", ""), true),
                new AbortedRequest("file and body", rawPost("/file", ""), true),
                new AbortedRequest("static file", rawGet("/static/large.bin", ""), true),
                new AbortedRequest("static file and body", rawGet("/static/large.bin", "Content-Length: 9\r\n"), true),
                new AbortedRequest(
                        "WebSocket",
                        rawGet(
                                "/socket",
                                upgrade + "websocket\r\nSec-WebSocket-Version: 13\r\n"
                                        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
                        true),
                new AbortedRequest("upgrade", rawGet("/tunnel", upgrade + "other\r\n"), true),
                new AbortedRequest("CONNECT", "CONNECT /tunnel HTTP/1.1\r\nHost: localhost\r\n\r\n", true),
                new AbortedRequest("pipelined handlers", rawGet("/wait", "").repeat(2), false),
                new AbortedRequest("pipelined files", rawGet("/file", "").repeat(3), true));
    }

    @ParameterizedTest(name = "{0}, reset: {1}")
    @MethodSource("stages")
    void noPermitOutlivesItsConnection(AbortedRequest aborted, boolean resets) throws Exception {
        aborted.send(server.actualPort(), PERMITS, resets, () -> {
            if (aborted.stage().equals("decision")) {
                done(asked);
            } else {
                await().atMost(LONG).until(() -> begun.get() == PERMITS);
                assertThat(used("running")).isEqualTo(PERMITS);
            }
        });
        key.tryEmitValue("a");
        assertAllFree();
        if (aborted.request().contains(" /file ")) {
            await().atMost(LONG)
                    .untilAsserted(() -> assertThat(used("bytes") % 7).isZero());
            assertThat(used("bytes")).isPositive();
        }
    }

    static Stream<Arguments> streams() {
        return Stream.of("/wait", "/upload", "/stream", "/own", "/file", "/static/large.bin")
                .flatMap(path -> Stream.of(Arguments.of(path, false), Arguments.of(path, true)));
    }

    @ParameterizedTest(name = "{0}, connection closed: {1}")
    @MethodSource("streams")
    void noPermitOutlivesItsStream(String path, boolean closesConnection) throws Exception {
        HttpClient http2 = vertx.createHttpClient(
                new HttpClientOptions().setProtocolVersion(HttpVersion.HTTP_2).setHttp2ClearTextUpgrade(false));
        HttpMethod method = path.equals("/upload") ? HttpMethod.POST : HttpMethod.GET;
        List<HttpClientRequest> requests = new ArrayList<>();
        for (int i = 0; i < PERMITS; i++) {
            HttpClientRequest request = done(http2.request(method, server.actualPort(), "127.0.0.1", path));
            requests.add(request);
            request.response().onSuccess(response -> response.pause());
            if (path.equals("/upload")) {
                request.setChunked(true);
                done(request.write(Buffer.buffer("part")));
            } else {
                done(request.end());
            }
        }
        await().atMost(LONG).until(() -> begun.get() == PERMITS);
        assertThat(used("running")).isEqualTo(PERMITS);
        for (HttpClientRequest request : requests) {
            if (closesConnection) {
                request.connection().close();
            } else {
                request.reset(8);
            }
        }
        assertAllFree();
    }

    /** These clients stay connected, and neither send nor read on. See docs/vertx.md. */
    @ParameterizedTest
    @ValueSource(strings = {"POST /upload", "GET /stream", "GET /file", "GET /static/large.bin"})
    void anIdleTimeoutEndsRequestsOfSlowClients(String request) throws Exception {
        server.close();
        HttpServerOptions options = new HttpServerOptions().setIdleTimeout(1).setIdleTimeoutUnit(TimeUnit.SECONDS);
        Router router = Router.router(vertx);
        routes(router);
        server = done(vertx.createHttpServer(options).requestHandler(router).listen(0, "127.0.0.1"));
        client = ClientForTests.of(server.actualPort());
        String[] parts = request.split(" ", -1);
        String sent = parts[0].equals("POST") ? rawPost(parts[1], "") : rawGet(parts[1], "");
        new AbortedRequest("slow", sent, false).send(server.actualPort(), 1, false, () -> {
            await().atMost(LONG).until(() -> begun.get() == 1);
            assertAllFree();
        });
    }

    /** Nothing of a request stays with its connection, which may serve any number of them. */
    @ParameterizedTest
    @ValueSource(strings = {"/hello", "/large"})
    void aConnectionKeepsNothingOfItsRequests(String path) throws Exception {
        AtomicReference<ChannelFuture> closing = new AtomicReference<>();
        List<Integer> listeners = Collections.synchronizedList(new ArrayList<>());
        server.close();
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> {
            HttpServerConnection connection =
                    (HttpServerConnection) ctx.request().connection();
            closing.set(connection.channelHandlerContext().channel().closeFuture());
            listeners.add(listeners(closing.get()));
            if (path.equals("/hello")) {
                end(ctx, "hello");
            } else {
                Future<Void> unused =
                        ctx.response().sendFile(directory.resolve("large.bin").toString(), 0, 100);
            }
        }));
        for (int i = 0; i < 1_000; i++) {
            assertThat(get(path).statusCode()).isEqualTo(200);
        }
        assertThat(listeners).hasSize(1_000);
        assertThat(listeners.get(999)).isEqualTo(listeners.get(0));
    }

    /** Netty does not tell how many there are. */
    private static int listeners(ChannelFuture future) {
        try {
            int count = 0;
            for (String name : List.of("listener", "listeners")) {
                Field field = DefaultPromise.class.getDeclaredField(name);
                field.setAccessible(true);
                Object value = field.get(future);
                if (value != null && name.equals("listeners")) {
                    Field all = value.getClass().getDeclaredField("listeners");
                    all.setAccessible(true);
                    Object array = all.get(value);
                    for (int i = 0; i < Array.getLength(array); i++) {
                        count += Array.get(array, i) == null ? 0 : 1;
                    }
                } else {
                    count += value == null ? 0 : 1;
                }
            }
            return count;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private void assertAllFree() {
        await().atMost(LONG).untilAsserted(() -> assertThat(used("running")).isZero());
        // A decision may be made only now.
        await().atMost(LONG).until(() -> get("/hello").statusCode() == 200);
        await().atMost(LONG).untilAsserted(() -> assertThat(used("running")).isZero());
    }

    private long used(String rule) {
        return rules.peek(rule, "all").block(LONG).limits().get(0).used();
    }
}
