package io.github.spillgate.examples.pipeline;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import redis.embedded.RedisServer;

/** A Redis to try the example with: the one that {@code SPILLGATE_REDIS_URI} names, or else one that comes with the build. */
record ExampleRedis(String name, String uri, Closeable process) implements Closeable {

    static ExampleRedis start() throws IOException {
        String uri = System.getenv("SPILLGATE_REDIS_URI");
        if (uri != null) {
            return new ExampleRedis("the one of SPILLGATE_REDIS_URI", uri, () -> {});
        }
        int port = freePort();
        RedisServer server = RedisServer.newRedisServer()
                .port(port)
                .bind("127.0.0.1")
                .setting("save \"\"")
                .build();
        server.start();
        return new ExampleRedis("an embedded one on 127.0.0.1:" + port, "redis://127.0.0.1:" + port, server::stop);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    @Override
    public void close() throws IOException {
        process.close();
    }
}
