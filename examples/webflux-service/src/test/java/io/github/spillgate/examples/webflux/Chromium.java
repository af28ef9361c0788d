package io.github.spillgate.examples.webflux;

import static org.awaitility.Awaitility.await;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.WebSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A page in a headless Chromium, driven by its DevTools protocol. */
final class Chromium implements Closeable {

    private static final String LISTENING = "DevTools listening on ";

    private static final JsonMapper JSON = new JsonMapper();

    private final Process process;
    private final WebSocket socket;
    private final AtomicInteger ids = new AtomicInteger();
    private final Map<Integer, CompletableFuture<JsonNode>> calls = new ConcurrentHashMap<>();

    private Chromium(Process process, URI page) {
        this.process = process;
        this.socket = HttpClient.newHttpClient()
                .newWebSocketBuilder()
                .buildAsync(page, new Replies())
                .join();
    }

    /** Starts a browser with an empty profile. */
    static Chromium start() throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(
                executable(),
                "--headless",
                "--remote-debugging-port=0",
                "--hide-scrollbars",
                "--user-data-dir=" + Files.createTempDirectory("chromium")));
        if (System.getProperty("user.name").equals("root")) {
            command.add("--no-sandbox");
        }
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        BufferedReader output = process.inputReader();
        String line = output.readLine();
        while (line != null && !line.startsWith(LISTENING)) {
            line = output.readLine();
        }
        if (line == null) {
            throw new IOException("Chromium did not start: " + String.join(" ", command));
        }
        URI browser = URI.create(line.substring(LISTENING.length()).replace("ws:", "http:"));
        JsonNode targets = JSON.readTree(HttpClient.newHttpClient()
                .send(HttpRequest.newBuilder(browser.resolve("/json/list")).build(), BodyHandlers.ofString())
                .body());
        return new Chromium(
                process, URI.create(targets.get(0).get("webSocketDebuggerUrl").asString()));
    }

    private static String executable() throws IOException {
        String chosen = System.getenv("CHROMIUM");
        return chosen != null
                ? chosen
                : Stream.of("chromium", "chromium-browser", "google-chrome")
                        .flatMap(name -> Stream.of(System.getenv("PATH").split(File.pathSeparator))
                                .map(directory -> Path.of(directory, name)))
                        .filter(Files::isExecutable)
                        .findFirst()
                        .orElseThrow(() -> new IOException("Chromium is not installed: expected chromium,"
                                + " chromium-browser or google-chrome on the PATH, for example after apt-get install"
                                + " chromium, or the variable CHROMIUM with its path"))
                        .toString();
    }

    void size(int width, int height, double scale) {
        call(
                "Emulation.setDeviceMetricsOverride",
                Map.of("width", width, "height", height, "deviceScaleFactor", scale, "mobile", false));
    }

    void colorScheme(String scheme) {
        call(
                "Emulation.setEmulatedMedia",
                Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
    }

    void open(URI uri) {
        call("Page.navigate", Map.of("url", uri.toString()));
    }

    /** Evaluates an expression again and again until it is a number, and returns it. */
    int awaitNumber(String expression) {
        return await().until(
                        () -> call("Runtime.evaluate", Map.of("expression", expression))
                                .get("result")
                                .path("value"),
                        JsonNode::isNumber)
                .asInt();
    }

    /** Returns a PNG of the visible part of the page. */
    byte[] picture() {
        return Base64.getDecoder()
                .decode(call("Page.captureScreenshot", Map.of()).get("data").asString());
    }

    private JsonNode call(String method, Map<String, ?> parameters) {
        int id = ids.incrementAndGet();
        CompletableFuture<JsonNode> reply = new CompletableFuture<>();
        calls.put(id, reply);
        socket.sendText(JSON.writeValueAsString(Map.of("id", id, "method", method, "params", parameters)), true)
                .join();
        JsonNode told = reply.orTimeout(30, TimeUnit.SECONDS).join();
        if (told.has("error")) {
            throw new IllegalStateException(method + ": " + told.get("error"));
        }
        return told.get("result");
    }

    @Override
    public void close() {
        socket.abort();
        process.destroy();
    }

    private final class Replies implements WebSocket.Listener {

        private final StringBuilder message = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean isLast) {
            message.append(data);
            if (isLast) {
                JsonNode told = JSON.readTree(message.toString());
                message.setLength(0);
                if (told.has("id")) {
                    calls.remove(told.get("id").asInt()).complete(told);
                }
            }
            from.request(1);
            return CompletableFuture.completedFuture(null);
        }
    }
}
