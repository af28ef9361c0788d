package io.github.spillgate.examples.grpc;

import io.github.spillgate.http.address.ClientAddress;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;

/** Returns the key to which a call is charged. */
public final class Keys {

    private static final Metadata.Key<String> API_KEY = Metadata.Key.of("x-api-key", Metadata.ASCII_STRING_MARSHALLER);

    private static final ClientAddress ADDRESS = ClientAddress.ofXForwardedFor("10.0.0.0/8");

    private Keys() {}

    /** The API key, which an earlier interceptor has verified, or the address if there is none. */
    public static String apiKey(ServerCall<?, ?> call, Metadata headers) {
        String key = headers.get(API_KEY);
        return key == null ? address(call, headers) : "key:" + key;
    }

    /** The address of the client: the peer of the connection, or the address that a trusted proxy reports. */
    public static String address(ServerCall<?, ?> call, Metadata headers) {
        String peer = call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR) instanceof InetSocketAddress socket
                ? socket.getAddress().getHostAddress()
                : null;
        return ADDRESS.resolve(peer, name -> all(headers, name))
                .map(address -> "ip:" + address)
                .orElse("unknown");
    }

    private static List<String> all(Metadata headers, String name) {
        List<String> all = new ArrayList<>();
        Iterable<String> values = headers.getAll(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
        if (values != null) {
            values.forEach(all::add);
        }
        return all;
    }
}
