package io.github.spillgate.examples.webflux;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A headless Chromium, controlled over a pipe by the DevTools protocol. A pipe needs no port, and the browser ends when
 * the pipe is closed, even if this process is killed.
 */
final class Browser implements Closeable {

    static final String VARIABLE = "SPILLGATE_BROWSER";

    private static final int ANSWER_SECONDS = 60;
    private static final int END_SECONDS = 10;
    private static final List<String> NAMES = List.of("chromium", "chromium-browser", "google-chrome");

    private static final JsonMapper JSON = new JsonMapper();

    private final Process process;
    private final Path profile;
    private final OutputStream commands;
    private final AtomicInteger lastId = new AtomicInteger();
    private final Map<Integer, CompletableFuture<JsonNode>> answers = new ConcurrentHashMap<>();
    private final Map<String, Consumer<JsonNode>> listeners = new ConcurrentHashMap<>();

    private Browser(Process process, Path profile) {
        this.process = process;
        this.profile = profile;
        this.commands = process.getOutputStream();
    }

    /** Returns the browser that the environment names, or else one on the path. */
    static Optional<Path> installed() {
        String named = System.getenv(VARIABLE);
        if (named != null && !named.isBlank()) {
            Path program = Path.of(named);
            if (!Files.isExecutable(program)) {
                throw new IllegalStateException(VARIABLE + " is \"" + named
                        + "\", which cannot be executed: expected a browser, for example /usr/bin/chromium");
            }
            return Optional.of(program);
        }
        List<Path> path = Stream.of(System.getenv("PATH").split(File.pathSeparator))
                .filter(directory -> !directory.isEmpty())
                .map(Path::of)
                .toList();
        return NAMES.stream()
                .flatMap(name -> path.stream().map(directory -> directory.resolve(name)))
                .filter(Files::isExecutable)
                .findFirst();
    }

    static Browser start(Path program) throws IOException {
        Path profile = Files.createTempDirectory("spillgate-browser");
        Process process = new ProcessBuilder(
                        // The browser uses file descriptors 3 and 4, which Java cannot open.
                        "sh",
                        "-c",
                        "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
                        program.toString(),
                        "--headless=new",
                        "--remote-debugging-pipe",
                        "--user-data-dir=" + profile,
                        "--no-first-run",
                        "--no-default-browser-check",
                        // Send no requests except to the service.
                        "--disable-background-networking",
                        "--disable-component-update",
                        "--disable-sync",
                        "--disable-gpu",
                        // /dev/shm is small in a container.
                        "--disable-dev-shm-usage",
                        // The sandbox does not work for root, so disable it for root only.
                        isRoot() ? "--no-sandbox" : "--no-pings",
                        "about:blank")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        Browser browser = new Browser(process, profile);
        Thread reader = new Thread(browser::read, "browser");
        reader.setDaemon(true);
        reader.start();
        return browser;
    }

    private static boolean isRoot() {
        return "root".equals(System.getProperty("user.name"));
    }

    /** Opens an empty tab in a new window. */
    Tab open() {
        return open(true);
    }

    Tab open(boolean newWindow) {
        String target = call(null, "Target.createTarget", Map.of("url", "about:blank", "newWindow", newWindow))
                .get("targetId")
                .asString();
        String session = call(null, "Target.attachToTarget", Map.of("targetId", target, "flatten", true))
                .get("sessionId")
                .asString();
        return new Tab(this, target, session);
    }

    void listen(String session, Consumer<JsonNode> listener) {
        listeners.put(session, listener);
    }

    /** Calls a method of the browser or of a tab, and waits for the result. */
    JsonNode call(@Nullable String session, String method, Map<String, ?> parameters) {
        int id = lastId.incrementAndGet();
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        answers.put(id, answer);
        Map<String, Object> command = new ConcurrentHashMap<>(Map.of("id", id, "method", method, "params", parameters));
        if (session != null) {
            command.put("sessionId", session);
        }
        send(command);
        JsonNode told = answer.orTimeout(ANSWER_SECONDS, TimeUnit.SECONDS).join();
        if (told.has("error")) {
            throw new IllegalStateException(method + " " + parameters + ": " + told.get("error"));
        }
        return told.path("result");
    }

    private void send(Map<String, Object> command) {
        try {
            synchronized (commands) {
                commands.write(JSON.writeValueAsBytes(command));
                commands.write(0);
                commands.flush();
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the browser has ended", e);
        }
    }

    /** Reads messages, each of which ends with a zero byte. */
    private void read() {
        try (InputStream in = new BufferedInputStream(process.getInputStream())) {
            ByteArrayOutputStream message = new ByteArrayOutputStream();
            for (int one = in.read(); one >= 0; one = in.read()) {
                if (one == 0) {
                    told(JSON.readTree(message.toString(StandardCharsets.UTF_8)));
                    message.reset();
                } else {
                    message.write(one);
                }
            }
        } catch (IOException e) {
            // The browser has ended: pending calls fail below.
        } finally {
            answers.values()
                    .forEach(answer -> answer.completeExceptionally(
                            new IllegalStateException("the browser has ended: expected a response")));
        }
    }

    private void told(JsonNode message) {
        if (message.has("id")) {
            CompletableFuture<JsonNode> answer =
                    answers.remove(message.get("id").asInt());
            if (answer != null) {
                answer.complete(message);
            }
        } else {
            Consumer<JsonNode> listener =
                    listeners.get(message.path("sessionId").asString(""));
            if (listener != null) {
                listener.accept(message);
            }
        }
    }

    /** Ends the browser, and deletes its files. */
    @Override
    public void close() throws IOException {
        List<ProcessHandle> all = Stream.concat(Stream.of(process.toHandle()), process.descendants())
                .toList();
        commands.close();
        try {
            if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
                all.forEach(ProcessHandle::destroyForcibly);
            }
            // Helper processes end a little later, and still write files.
            for (ProcessHandle one : all) {
                one.onExit()
                        .orTimeout(END_SECONDS, TimeUnit.SECONDS)
                        .exceptionally(late -> {
                            one.destroyForcibly();
                            return one;
                        })
                        .join();
            }
        } catch (InterruptedException e) {
            all.forEach(ProcessHandle::destroyForcibly);
            Thread.currentThread().interrupt();
        }
        delete(profile);
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(path);
            }
        }
    }
}
