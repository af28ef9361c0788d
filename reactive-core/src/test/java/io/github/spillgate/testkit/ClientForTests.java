package io.github.spillgate.testkit;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpClient.Version;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * A client of a service on this machine, which has nothing in common with the framework that the service is made of.
 */
public final class ClientForTests {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final int port;
    private final HttpClient client;

    private ClientForTests(int port, Version version) {
        this.port = port;
        this.client = HttpClient.newBuilder().version(version).build();
    }

    public static ClientForTests of(int port) {
        return new ClientForTests(port, Version.HTTP_1_1);
    }

    /**
     * A client that speaks HTTP/2 to this port, without encryption: its first request asks for that, and once it has
     * been answered, all others are streams of the same connection.
     */
    public static ClientForTests ofHttp2(int port) {
        return new ClientForTests(port, Version.HTTP_2);
    }

    public URI uri(String path) {
        return URI.create("http://127.0.0.1:" + port + path);
    }

    /** Reads this many bytes of a response, disconnects, and returns the status; with HTTP/2 it resets the stream. */
    public int readAndDisconnect(String path, int bytes) {
        return readAndDisconnect(path, bytes, () -> {});
    }

    /** Reads this many bytes of a response, runs an action, and disconnects, like the other method. */
    public int readAndDisconnect(String path, int bytes, Runnable before) {
        return read(path, body -> {
            body.readNBytes(bytes);
            before.run();
        });
    }

    /** Lets a reader read the body of a response, disconnects, and returns the status. */
    public int read(String path, BodyReader reader) {
        HttpResponse<InputStream> response = client.sendAsync(
                        request(path).GET().build(), BodyHandlers.ofInputStream())
                .join();
        try (InputStream body = response.body()) {
            reader.read(body);
            return response.statusCode();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public interface BodyReader {

        void read(InputStream body) throws IOException;
    }

    /** A request, to be sent with {@link #send}; header fields are a name and a value each. */
    public HttpRequest.Builder request(String path, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(uri(path)).timeout(LONG);
        return headers.length == 0 ? request : request.headers(headers);
    }

    public HttpResponse<String> get(String path, String... headers) {
        return send(request(path, headers).GET());
    }

    public HttpResponse<String> post(String path, String body, String... headers) {
        return send(request(path, headers).POST(BodyPublishers.ofString(body)));
    }

    public HttpResponse<String> send(HttpRequest.Builder request) {
        try {
            return client.send(request.build(), BodyHandlers.ofString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    public CompletableFuture<HttpResponse<String>> sendLater(HttpRequest.Builder request) {
        return client.sendAsync(request.build(), BodyHandlers.ofString());
    }

    /** Asks for a path that no client would send, and returns how the response begins. */
    public String statusLine(String path) {
        return answerTo("GET " + path + " HTTP/1.1", "Host: localhost");
    }

    /** Sends lines that no client would, and returns how the response begins; null, as text, if there is none. */
    public String answerTo(String... lines) {
        try (Socket socket = connect()) {
            socket.getOutputStream().write(bytes(String.join("\r\n", lines) + "\r\nConnection: close\r\n\r\n"));
            return line(new BufferedInputStream(socket.getInputStream()));
        } catch (EOFException e) {
            return "null";
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Asks for all these paths at once on one connection, and returns what is answered, in the order in which it comes.
     */
    public List<Answer> pipelined(List<String> paths) {
        StringBuilder requests = new StringBuilder();
        for (String path : paths) {
            requests.append("GET ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        try (Socket socket = connect()) {
            socket.getOutputStream().write(bytes(requests.toString()));
            InputStream in = new BufferedInputStream(socket.getInputStream());
            List<Answer> answers = new ArrayList<>();
            while (answers.size() < paths.size()) {
                answers.add(answer(in));
            }
            return answers;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Runs clients on threads of their own, each with another random seed, and waits for all of them. */
    public static void inParallel(int clients, Consumer<Random> client) {
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        try {
            CompletableFuture.allOf(IntStream.range(0, clients)
                            .mapToObj(
                                    seed -> CompletableFuture.runAsync(() -> client.accept(new Random(seed)), threads))
                            .toArray(CompletableFuture[]::new))
                    .orTimeout(10, TimeUnit.MINUTES)
                    .join();
        } finally {
            threads.shutdownNow();
        }
    }

    /**
     * Sends one request with HTTP/1.1, of a random kind, and disconnects at a random moment within 15 ms, in some cases
     * with a reset.
     *
     * @param mayUpload whether it may be a request with a body
     */
    public void disconnectAtRandom(Random random, boolean mayUpload) {
        try (Socket socket = connect()) {
            socket.setSoLinger(random.nextBoolean(), 0);
            socket.getOutputStream().write(bytes(randomRequest(random, mayUpload)));
            if (random.nextInt(4) > 0) {
                socket.setSoTimeout(1 + random.nextInt(15));
                long end = System.nanoTime() + random.nextInt(15_000_000);
                int read;
                do {
                    read = socket.getInputStream().read(new byte[4096]);
                } while (read >= 0 && System.nanoTime() - end < 0);
            }
        } catch (IOException e) {
            // Also a timeout: the client disconnects.
        }
    }

    private static String randomRequest(Random random, boolean mayUpload) {
        String host = " HTTP/1.1\r\nHost: localhost\r\n";
        return switch (random.nextInt(mayUpload ? 5 : 4)) {
            case 0 -> "GET /hold/" + random.nextInt(10) + host + "\r\n";
            case 1 -> "GET /hold/stream" + host + "\r\n";
            case 2 ->
                "GET /socket" + host + "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            case 3 -> "GET /hello" + host + "\r\n" + "GET /hold/1" + host + "\r\n";
            default ->
                "POST /hold/upload" + host + "Content-Length: 10000\r\n\r\n"
                        + "x".repeat(random.nextBoolean() ? 10_000 : random.nextInt(10_000));
        };
    }

    private Socket connect() throws IOException {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        socket.setSoTimeout((int) LONG.toMillis());
        return socket;
    }

    private static Answer answer(InputStream in) throws IOException {
        int status = Integer.parseInt(line(in).split(" ", 3)[1]);
        Map<String, String> fields = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (String line = line(in); !line.isEmpty(); line = line(in)) {
            int colon = line.indexOf(':');
            fields.put(line.substring(0, colon), line.substring(colon + 1).strip());
        }
        String length = fields.get("Content-Length");
        if (length == null) {
            throw new IOException(
                    "expected a Content-Length, for this client knows of nothing else, but got " + fields);
        }
        byte[] body = in.readNBytes(Integer.parseInt(length));
        return new Answer(status, fields, new String(body, StandardCharsets.UTF_8));
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = in.read(); next != '\n'; next = in.read()) {
            if (next < 0) {
                throw new EOFException("expected the end of a line, but got that of the connection after \""
                        + line.toString(StandardCharsets.ISO_8859_1) + "\"");
            }
            line.write(next);
        }
        return line.toString(StandardCharsets.ISO_8859_1).stripTrailing();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    /** A response as it has come over a connection. */
    public record Answer(int status, Map<String, String> fields, String body) {}
}
