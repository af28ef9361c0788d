package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.address.ClientAddress;
import io.vertx.core.Context;
import io.vertx.core.Vertx;
import io.vertx.core.http.ServerWebSocket;
import java.time.Duration;
import reactor.core.Disposable;
import reactor.core.Disposables;

/** WebSockets with limits on their messages, as in docs/websockets-and-grpc.md. */
final class Chat {

    private static final short INTERNAL_ERROR = 1011;
    private static final short POLICY_VIOLATION = 1008;
    private static final short TRY_AGAIN_LATER = 1013;

    private static final ClientAddress ADDRESS = ClientAddress.ofXForwardedFor("10.0.0.0/8");

    private Chat() {}

    static void slowed(Vertx vertx, ServerWebSocket socket, RateLimiter limiter) {
        Context context = vertx.getOrCreateContext();
        String key = key(socket);
        Disposable.Swap waiting = Disposables.swap();
        socket.closeHandler(gone -> waiting.dispose());
        socket.textMessageHandler(text -> {
            socket.pause();
            waiting.update(limiter.acquire(key, Duration.ofMinutes(10))
                    .subscribe(
                            decision -> context.runOnContext(back -> handle(socket, text, decision)),
                            error -> socket.close(INTERNAL_ERROR)));
        });
    }

    static void closed(ServerWebSocket socket, FutureRateLimiter limits) {
        String key = key(socket);
        socket.textMessageHandler(text -> {
            socket.pause();
            limits.tryAcquire(key)
                    .onSuccess(decision -> handle(socket, text, decision))
                    .onFailure(error -> socket.close(INTERNAL_ERROR));
        });
    }

    static void handle(ServerWebSocket socket, String text, Decision decision) {
        if (decision.isAllowed()) {
            socket.writeTextMessage(answer(text));
            socket.resume();
        } else if (decision.retryAfter().isPresent()) {
            long seconds = decision.retryAfter().get().toSeconds() + 1;
            socket.close(TRY_AGAIN_LATER, "retry-after=" + seconds);
        } else {
            socket.close(POLICY_VIOLATION);
        }
    }

    /** The address of the client, from the handshake. */
    static String key(ServerWebSocket socket) {
        return ADDRESS.resolve(
                        socket.remoteAddress().hostAddress(),
                        name -> socket.headers().getAll(name))
                .map(address -> "ip:" + address)
                .orElse("unknown");
    }

    static String answer(String text) {
        return text + "!";
    }
}
