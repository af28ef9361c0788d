package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.channel.Channel;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.quic.QuicChannel;
import io.netty.handler.codec.quic.QuicStreamAddress;
import io.netty.handler.codec.quic.QuicStreamChannel;
import io.netty.util.Attribute;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Channels with an address that is none: no server is needed to see what is made of them. */
class NettyConnectionTest {

    private static final InetSocketAddress PEER = InetSocketAddress.createUnresolved("198.51.100.1", 40_000);

    /** An HTTP/3 stream and its connection have numeric ids instead of network addresses. */
    @Test
    void thePeerOfAStreamOfHttp3IsThatOfItsConnection() {
        Channel connection = channel(QuicChannel.class, Map.of("remoteSocketAddress", PEER));
        Channel stream = channel(
                QuicStreamChannel.class, Map.of("remoteAddress", new QuicStreamAddress(4), "parent", connection));
        assertThat(NettyConnection.peer(stream)).isEqualTo(PEER);
    }

    private static <T extends Channel> T channel(Class<T> type, Map<String, Object> answers) {
        EmbeddedChannel attributes = new EmbeddedChannel();
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (proxy, method, arguments) -> method.getReturnType() == Attribute.class
                        ? method.invoke(attributes, arguments)
                        : answers.get(method.getName())));
    }
}
