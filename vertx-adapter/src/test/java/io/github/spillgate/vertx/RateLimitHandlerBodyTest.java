package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.ThreadingModel;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpVersion;
import io.vertx.ext.auth.User;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.ext.web.handler.SimpleAuthenticationHandler;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Bodies of requests that are paused, denied or uploaded while the limiter decides. */
class RateLimitHandlerBodyTest extends HandlerFixture {

    @Test
    void aRequestPausedByAnEarlierHandlerStaysPaused() throws Exception {
        Rules rules = rules(local, address("address", 5));
        start(router -> router.post("/files")
                .handler(ctx -> {
                    // An earlier handler pauses the body for a later handler, which is slow.
                    ctx.request().pause();
                    ctx.next();
                })
                .handler(RateLimitHandler.create(rules))
                .handler(ctx -> ctx.vertx().setTimer(200, now -> {
                    ctx.request()
                            .body()
                            .onComplete(body -> end(
                                    ctx,
                                    String.valueOf(
                                            body.result() == null
                                                    ? -1
                                                    : body.result().length())));
                    ctx.request().resume();
                })));

        assertThat(post("/files", "12345").body()).isEqualTo("5");
    }

    @Test
    void aBodyArrivesIfTheVerdictOvertakesAForeignThread() throws Exception {
        Rules rules = rules(local, lateKey());
        RateLimitHandler limited = RateLimitHandler.create(rules);
        CompletableFuture<Void> wentOn = new CompletableFuture<>();
        CompletableFuture<Void> handlerReturned = new CompletableFuture<>();
        start(router -> {
            router.post("/files").handler(ctx -> {
                Thread foreign = new Thread(() -> {
                    Thread me = Thread.currentThread();
                    var request = (io.vertx.core.internal.http.HttpServerRequestInternal) ctx.request();
                    Object slow = new io.vertx.core.internal.http.HttpServerRequestWrapper(request) {
                        @Override
                        public io.vertx.core.http.HttpServerRequest pause() {
                            if (Thread.currentThread() == me) {
                                // The thread is preempted here, and the reply arrives.
                                key.tryEmitValue("a");
                                try {
                                    wentOn.get(1, TimeUnit.SECONDS);
                                } catch (Exception e) {
                                    // It waits for us, which is well.
                                }
                            }
                            return super.pause();
                        }
                    };
                    RoutingContext wrapped = (RoutingContext) java.lang.reflect.Proxy.newProxyInstance(
                            RateLimitHandlerBodyTest.class.getClassLoader(),
                            new Class<?>[] {RoutingContext.class},
                            (self, method, args) -> {
                                if (method.getName().equals("request")) {
                                    return slow;
                                }
                                Object result = method.invoke(ctx, args);
                                if (method.getName().equals("next")) {
                                    wentOn.complete(null);
                                }
                                return result;
                            });
                    try {
                        limited.handle(wrapped);
                        handlerReturned.complete(null);
                    } catch (Throwable e) {
                        handlerReturned.completeExceptionally(e);
                    }
                });
                foreign.start();
            });
            router.post("/files")
                    .handler(BodyHandler.create(false))
                    .handler(ctx -> end(ctx, String.valueOf(ctx.body().length())));
        });
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.setSoTimeout(5_000);
            OutputStream out = socket.getOutputStream();
            out.write(
                    "POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            done(handlerReturned);
            out.write("12345".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            assertThat(head(socket.getInputStream())).startsWith("HTTP/1.1 200");
        }
    }

    @Test
    void aDeniedUploadLeavesTheConnectionUsable() throws Exception {
        Rules rules = rules(limiter, address("address", 1));
        start(router -> router.route()
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(BodyHandler.create(false))
                .handler(ctx -> end(ctx, "hello")));
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.setSoTimeout(5_000);
            OutputStream out = socket.getOutputStream();
            InputStream in = socket.getInputStream();
            for (int round = 0; round < 3; round++) {
                out.write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        .getBytes(StandardCharsets.US_ASCII));
                byte[] chunk = ("10000\r\n" + "x".repeat(0x10000) + "\r\n").getBytes(StandardCharsets.US_ASCII);
                for (int i = 0; i < 20; i++) {
                    out.write(chunk);
                }
                out.write("0\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                out.flush();
                String head = head(in);
                assertThat(head).startsWith(round == 0 ? "HTTP/1.1 200" : "HTTP/1.1 429");
            }
            out.write("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
                    .getBytes(StandardCharsets.US_ASCII));
            out.flush();
            String headOnly = "";
            while (!headOnly.endsWith("\r\n\r\n")) {
                headOnly += (char) in.read();
            }
            assertThat(headOnly).startsWith("HTTP/1.1 429");
            assertThat(head(in)).startsWith("HTTP/1.1 429");
        }
    }

    @Test
    void uploadsByHttp2AndOnWorkersAreNotLost() throws Exception {
        Rules rules = rules(limiter, address("address", 60));
        byte[] body = new byte[2 * 1024 * 1024];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (i * 31);
        }
        for (ThreadingModel model : List.of(ThreadingModel.EVENT_LOOP, ThreadingModel.WORKER)) {
            CompletableFuture<HttpServer> listening = new CompletableFuture<>();
            done(vertx.deployVerticle(
                    new AbstractVerticle() {
                        @Override
                        public void start() {
                            Router router = Router.router(vertx);
                            router.route()
                                    .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                                    .handler(BodyHandler.create(false))
                                    .handler(SimpleAuthenticationHandler.create()
                                            .authenticate(ctx -> Future.succeededFuture(User.fromName("ann"))))
                                    .handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION))
                                    .handler(ctx -> end(
                                            ctx,
                                            String.valueOf(Arrays.hashCode(
                                                    ctx.body().buffer().getBytes()))));
                            vertx.createHttpServer()
                                    .requestHandler(router)
                                    .listen(0, "127.0.0.1")
                                    .onSuccess(listening::complete);
                        }
                    },
                    new DeploymentOptions().setThreadingModel(model)));
            int port = done(listening).actualPort();
            for (ClientForTests one : List.of(ClientForTests.of(port), ClientForTests.ofHttp2(port))) {
                one.post("/", "warm");
                for (boolean expectsContinue : new boolean[] {false, false, false, false, false, true}) {
                    HttpResponse<String> response = one.send(
                            one.request("/").expectContinue(expectsContinue).POST(BodyPublishers.ofByteArray(body)));
                    assertThat(response.body())
                            .as(model + " " + response.version())
                            .isEqualTo(String.valueOf(Arrays.hashCode(body)));
                }
            }
        }
    }

    @Test
    void uploadsByHttp2WithPriorKnowledgeAreNotLost() throws Exception {
        Rules rules = rules(limiter, address("address", 100));
        start(router -> router.route()
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(BodyHandler.create(false))
                .handler(ctx -> end(ctx, String.valueOf(ctx.body().length()))));
        var h2 = vertx.createHttpClient(
                new HttpClientOptions().setProtocolVersion(HttpVersion.HTTP_2).setHttp2ClearTextUpgrade(false));
        List<Future<String>> all = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            int n = 100_000 + i;
            all.add(h2.request(HttpMethod.POST, server.actualPort(), "127.0.0.1", "/")
                    .compose(r -> r.send(Buffer.buffer(new byte[n])))
                    .compose(r -> r.body())
                    .map(b -> b.toString()));
        }
        for (int i = 0; i < 50; i++) {
            assertThat(done(all.get(i))).isEqualTo(String.valueOf(100_000 + i));
        }
    }

    private static String head(InputStream in) throws Exception {
        StringBuilder text = new StringBuilder();
        while (text.indexOf("\r\n\r\n") < 0) {
            int c = in.read();
            if (c < 0) {
                return text + "<end>";
            }
            text.append((char) c);
        }
        java.util.regex.Matcher length =
                java.util.regex.Pattern.compile("(?i)content-length: (\\d+)").matcher(text);
        if (length.find()) {
            in.readNBytes(Integer.parseInt(length.group(1)));
        }
        return text.toString();
    }
}
