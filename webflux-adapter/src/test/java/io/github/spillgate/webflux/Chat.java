package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.address.ClientAddress;
import java.net.InetSocketAddress;
import org.springframework.web.reactive.socket.CloseStatus;
import org.springframework.web.reactive.socket.HandshakeInfo;
import org.springframework.web.reactive.socket.WebSocketHandler;
import org.springframework.web.reactive.socket.WebSocketMessage;
import reactor.core.publisher.Mono;

/** Handlers with limits on messages, as in docs/websockets-and-grpc.md. */
final class Chat {

    private static final ClientAddress ADDRESS = ClientAddress.ofXForwardedFor("10.0.0.0/8");

    private Chat() {}

    static WebSocketHandler slowed(RateLimiter limiter) {
        return session -> key(session.getHandshakeInfo())
                .flatMap(key -> session.send(session.receive()
                        .map(WebSocketMessage::getPayloadAsText)
                        .transform(limiter.throttle(key))
                        .map(text -> session.textMessage(answer(text)))));
    }

    static WebSocketHandler closed(RateLimiter limiter) {
        return session -> key(session.getHandshakeInfo())
                .flatMap(key -> session.send(session.receive()
                        .map(WebSocketMessage::getPayloadAsText)
                        .concatMap(text -> limiter.tryAcquire(key).flatMap(decision -> {
                            if (decision.isAllowed()) {
                                return Mono.just(session.textMessage(answer(text)));
                            }
                            return session.close(status(decision)).then(Mono.empty());
                        }))));
    }

    static CloseStatus status(Decision denied) {
        return denied.retryAfter()
                .map(wait -> CloseStatus.SERVICE_OVERLOAD.withReason("retry-after=" + (wait.toSeconds() + 1)))
                .orElse(CloseStatus.POLICY_VIOLATION);
    }

    static WebSocketHandler answered(RateLimiter limiter) {
        return session -> key(session.getHandshakeInfo())
                .flatMap(key -> session.send(session.receive()
                        .map(WebSocketMessage::getPayloadAsText)
                        .concatMap(text -> limiter.tryAcquire(key)
                                .map(decision -> decision.isAllowed() ? answer(text) : "too many messages"))
                        .map(session::textMessage)));
    }

    /** The user, or the address if there is no user. */
    static Mono<String> key(HandshakeInfo handshake) {
        InetSocketAddress peer = handshake.getRemoteAddress();
        String address = ADDRESS.resolve(
                        peer == null ? null : peer.getAddress().getHostAddress(),
                        name -> handshake.getHeaders().getOrEmpty(name))
                .orElse("unknown");
        return handshake.getPrincipal().map(user -> "user:" + user.getName()).defaultIfEmpty("ip:" + address);
    }

    static String answer(String text) {
        return text + "!";
    }
}
