package io.github.spillgate.webflux;

import io.netty.channel.Channel;
import io.netty.handler.codec.quic.QuicChannel;
import io.netty.util.AttributeKey;
import java.net.SocketAddress;
import org.jspecify.annotations.Nullable;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.util.ClassUtils;
import reactor.netty.NettyInbound;

/**
 * The connection on which a request has come, where Reactor Netty serves it; whatever has been put in the place of that
 * request since.
 */
final class NettyConnection {

    private static final boolean REACTOR_NETTY = isPresent("reactor.netty.NettyInbound");
    private static final boolean QUIC = isPresent("io.netty.handler.codec.quic.QuicChannel");

    private NettyConnection() {}

    private static boolean isPresent(String type) {
        return ClassUtils.isPresent(type, NettyConnection.class.getClassLoader());
    }

    static @Nullable Channel of(ServerHttpRequest request) {
        return REACTOR_NETTY ? OfNetty.channel(request) : null;
    }

    /** The other end of it, as no header can change it. */
    static @Nullable SocketAddress peer(Channel channel) {
        SocketAddress told = OfNetty.byProxyProtocol(channel);
        if (told != null) {
            return told;
        }
        SocketAddress ofStream = QUIC ? OfQuic.peer(channel.parent()) : null;
        return ofStream == null ? channel.remoteAddress() : ofStream;
    }

    /** Apart, so that it is loaded only where Reactor Netty is there. */
    private static final class OfNetty {

        /**
         * Under this name Reactor Netty keeps what a PROXY protocol has said, which it reads only if the server is told
         * to.
         */
        private static final AttributeKey<SocketAddress> BY_PROXY_PROTOCOL =
                AttributeKey.valueOf("remoteAddressFromProxyProtocol");

        static @Nullable Channel channel(ServerHttpRequest request) {
            Channel[] found = new Channel[1];
            if (nativeOf(request) instanceof NettyInbound inbound) {
                inbound.withConnection(connection -> found[0] = connection.channel());
            }
            return found[0];
        }

        private static Object nativeOf(ServerHttpRequest request) {
            try {
                return ServerHttpRequestDecorator.getNativeRequest(request);
            } catch (IllegalArgumentException | IllegalStateException e) {
                // Of a request that no server has received, as in a test without one.
                return request;
            }
        }

        static @Nullable SocketAddress byProxyProtocol(Channel channel) {
            SocketAddress told = channel.attr(BY_PROXY_PROTOCOL).get();
            Channel parent = channel.parent();
            // Of HTTP/2 each stream is a channel, and the connection is its parent.
            return told == null && parent != null
                    ? parent.attr(BY_PROXY_PROTOCOL).get()
                    : told;
        }
    }

    /**
     * Apart, so that it is loaded only where HTTP/3 is there, whose streams and connections have names in place of
     * addresses.
     */
    private static final class OfQuic {

        static @Nullable SocketAddress peer(@Nullable Channel connection) {
            return connection instanceof QuicChannel quic ? quic.remoteSocketAddress() : null;
        }
    }
}
