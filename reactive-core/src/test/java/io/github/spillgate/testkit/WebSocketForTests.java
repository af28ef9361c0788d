package io.github.spillgate.testkit;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;

/** The other end of a WebSocket, which has nothing in common with the framework that the service is made of. */
public final class WebSocketForTests implements AutoCloseable {

    private final List<String> heard = new CopyOnWriteArrayList<>();
    private final CompletableFuture<String> closed = new CompletableFuture<>();
    private final WebSocket socket;

    private WebSocketForTests(URI uri) {
        socket = HttpClient.newHttpClient()
                .newWebSocketBuilder()
                .buildAsync(uri, new Ear())
                .join();
    }

    /** Opens one, to what is {@code http:} otherwise. */
    public static WebSocketForTests open(URI uri) {
        return new WebSocketForTests(URI.create(uri.toString().replace("http:", "ws:")));
    }

    /** Sends a message; once the socket is closed, that does nothing. */
    public void say(String message) {
        socket.sendText(message, true).exceptionally(error -> socket).join();
    }

    /** Sends a message, and tells when it has been taken. */
    public CompletableFuture<?> sayLater(String message) {
        return socket.sendText(message, true);
    }

    /** All messages that have come, in order. */
    public List<String> heard() {
        return heard;
    }

    /** Status and reason with which the other end has closed it. */
    public CompletableFuture<String> closed() {
        return closed;
    }

    /** Hangs up, without a word. */
    @Override
    public void close() {
        socket.abort();
    }

    private final class Ear implements WebSocket.Listener {

        private final StringBuilder text = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean last) {
            text.append(data);
            if (last) {
                heard.add(text.toString());
                text.setLength(0);
            }
            from.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onClose(WebSocket from, int status, String reason) {
            closed.complete((status + " " + reason).strip());
            return null;
        }
    }
}
