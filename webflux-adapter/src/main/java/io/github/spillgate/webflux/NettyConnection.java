package io.github.spillgate.webflux;

import io.netty.channel.Channel;
import io.netty.handler.codec.quic.QuicChannel;
import io.netty.util.AttributeKey;
import java.net.SocketAddress;
import java.util.concurrent.RejectedExecutionException;
import org.jspecify.annotations.Nullable;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.util.ClassUtils;
import reactor.core.publisher.Mono;
import reactor.netty.Connection;
import reactor.netty.NettyInbound;
import reactor.netty.channel.ChannelOperations;
import reactor.netty.http.websocket.WebsocketInbound;

/**
 * Access to the Reactor Netty connection on which a request arrived, also if a filter has replaced or decorated the
 * request.
 */
final class NettyConnection {

    private static final boolean REACTOR_NETTY = isPresent("reactor.netty.NettyInbound");
    private static final boolean QUIC = isPresent("io.netty.handler.codec.quic.QuicChannel");

    private NettyConnection() {}

    private static boolean isPresent(String type) {
        return ClassUtils.isPresent(type, NettyConnection.class.getClassLoader());
    }

    /** Returns the channel of a request; null if another server serves it. */
    static @Nullable Channel of(ServerHttpRequest request) {
        return REACTOR_NETTY ? ReactorNettyAccess.channel(request) : null;
    }

    /** Returns the address of the peer, which no header can change. */
    static @Nullable SocketAddress peer(Channel channel) {
        SocketAddress announced = ReactorNettyAccess.byProxyProtocol(channel);
        if (announced != null) {
            return announced;
        }
        SocketAddress quicPeer = QUIC ? QuicAccess.peer(channel.parent()) : null;
        return quicPeer == null ? channel.remoteAddress() : quicPeer;
    }

    /**
     * Returns the end of the response to a request; null if another server serves the request. Actions run after the
     * handler was cancelled. Call it before the response ends; the result may be used on any thread.
     */
    static @Nullable ResponseEnd end(ServerHttpRequest request) {
        return REACTOR_NETTY ? ReactorNettyAccess.end(request) : null;
    }

    /** Returns whether a handshake has made a WebSocket of a connection. */
    static boolean isWebSocket(Channel channel) {
        return ReactorNettyAccess.isWebSocket(channel);
    }

    /** Returns the request of the server, which filters may have decorated. */
    static Object nativeOf(ServerHttpRequest request) {
        try {
            return ServerHttpRequestDecorator.getNativeRequest(request);
        } catch (IllegalArgumentException | IllegalStateException e) {
            // No server has received this request, as in a test without a server.
            return request;
        }
    }

    /** A class of its own, so that it is loaded only if Reactor Netty is on the class path. */
    private static final class ReactorNettyAccess {

        /**
         * The attribute in which Reactor Netty keeps the address from the PROXY protocol. It is set only if the server
         * is configured to read that protocol.
         */
        private static final AttributeKey<SocketAddress> BY_PROXY_PROTOCOL =
                AttributeKey.valueOf("remoteAddressFromProxyProtocol");

        /** How many tasks of the event loop may pass until the handler is cancelled; Netty needs two at most. */
        private static final int MOST_TASKS = 100;

        private static @Nullable Connection connection(ServerHttpRequest request) {
            Connection[] found = new Connection[1];
            if (nativeOf(request) instanceof NettyInbound inbound) {
                inbound.withConnection(connection -> found[0] = connection);
            }
            return found[0];
        }

        static @Nullable Channel channel(ServerHttpRequest request) {
            Connection connection = connection(request);
            return connection == null ? null : connection.channel();
        }

        static boolean isWebSocket(Channel channel) {
            return ChannelOperations.get(channel) instanceof WebsocketInbound;
        }

        static @Nullable ResponseEnd end(ServerHttpRequest request) {
            Connection connection = connection(request);
            if (connection == null) {
                return null;
            }
            Mono<Void> end = connection.onTerminate();
            Channel channel = connection.channel();
            return new ResponseEnd() {

                @Override
                public Mono<Void> end() {
                    return end.onErrorComplete();
                }

                @Override
                public void whenEnded(Runnable action) {
                    end().subscribe(null, null, () -> afterHandler(channel, action, MOST_TASKS));
                }
            };
        }

        /**
         * Runs an action after the handler was cancelled. If the response has ended, the current task of the event loop
         * cancels it. If the connection was closed, a later task cancels it and unregisters the channel.
         */
        private static void afterHandler(Channel channel, Runnable action, int tasks) {
            Runnable next = () -> {
                if (tasks > 1 && !channel.isOpen() && channel.isRegistered()) {
                    afterHandler(channel, action, tasks - 1);
                } else {
                    action.run();
                }
            };
            try {
                channel.eventLoop().execute(next);
            } catch (RejectedExecutionException e) {
                action.run();
            }
        }

        static @Nullable SocketAddress byProxyProtocol(Channel channel) {
            SocketAddress announced = channel.attr(BY_PROXY_PROTOCOL).get();
            Channel parent = channel.parent();
            // With HTTP/2 each stream is a channel, and its parent is the connection.
            return announced == null && parent != null
                    ? parent.attr(BY_PROXY_PROTOCOL).get()
                    : announced;
        }
    }

    /**
     * A class of its own, so that it is loaded only if HTTP/3 is on the class path. Channels of HTTP/3 have names
     * instead of addresses.
     */
    private static final class QuicAccess {

        static @Nullable SocketAddress peer(@Nullable Channel connection) {
            return connection instanceof QuicChannel quic ? quic.remoteSocketAddress() : null;
        }
    }
}
