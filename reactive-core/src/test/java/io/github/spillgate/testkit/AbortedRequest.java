package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.Arguments;

/**
 * A request over HTTP/1.1 that its client aborts at a stage.
 *
 * @param stage the name of the stage
 * @param request what the client sends
 * @param isAnswered whether the client waits for the first bytes of the response
 */
public record AbortedRequest(String stage, String request, boolean isAnswered) {

    private static final int TIMEOUT_MILLIS = 30_000;

    /** More than the buffers of a connection hold. */
    private static final int FILE_SIZE = 64 * 1024 * 1024;

    /** Returns a request without a body, with additional header fields, each of which ends its line. */
    public static String rawGet(String path, String fields) {
        return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
    }

    /** Returns a request with the beginning of a body. */
    public static String rawPost(String path, String body) {
        return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                + "Content-Length: 1000\r\n\r\n" + body;
    }

    /** Returns each request twice: its client closes the connection, or resets it. */
    public static Stream<Arguments> closedAndReset(AbortedRequest... requests) {
        return Stream.of(requests)
                .flatMap(request -> Stream.of(Arguments.of(request, false), Arguments.of(request, true)));
    }

    /** Writes a file. Its response does not end unless the client reads it. */
    public static void writeLargeFile(Path path) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
            file.setLength(FILE_SIZE);
        }
    }

    /**
     * Sends the request.
     *
     * @param clients the number of clients that send it
     * @param resets whether they reset their connections, instead of closing them
     * @param isSent what happens before they do
     */
    public void send(int port, int clients, boolean resets, Action isSent) throws Exception {
        List<Socket> sockets = new ArrayList<>();
        try {
            for (int i = 0; i < clients; i++) {
                Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
                sockets.add(socket);
                socket.setSoTimeout(TIMEOUT_MILLIS);
                socket.setSoLinger(resets, 0);
                socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
                if (isAnswered) {
                    assertThat(socket.getInputStream().readNBytes(12)).hasSize(12);
                }
            }
            isSent.run();
        } finally {
            for (Socket socket : sockets) {
                socket.close();
            }
        }
    }

    @Override
    public String toString() {
        return stage;
    }

    /** Code of a test, which may throw. */
    public interface Action {
        void run() throws Exception;
    }
}
