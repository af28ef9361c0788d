package io.github.spillgate.examples.redis;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import org.jspecify.annotations.Nullable;
import redis.embedded.RedisServer;

/**
 * The Redis of an example: the server that {@code SPILLGATE_REDIS_URI} names, or else an embedded one. The embedded
 * server can be stopped and started again to simulate an outage, and ends with this process.
 */
public final class ExampleRedis implements ExampleServer {

    private static final String VARIABLE = "SPILLGATE_REDIS_URI";
    private static final String HOST = "127.0.0.1";

    private final String name;
    private final String uri;
    private final @Nullable RedisServer own;

    private ExampleRedis(String name, String uri, @Nullable RedisServer own) {
        this.name = name;
        this.uri = uri;
        this.own = own;
    }

    /** Opens the server that the environment names, or else an {@linkplain #embedded() embedded} one. */
    public static ExampleRedis open() throws IOException {
        return open(System.getenv(VARIABLE));
    }

    /** Opens the server with this URI, or else an {@linkplain #embedded() embedded} one. */
    public static ExampleRedis open(@Nullable String named) throws IOException {
        return named == null || named.isBlank()
                ? embedded()
                : new ExampleRedis("the server of " + VARIABLE, named, null);
    }

    /** Starts an embedded server on a free port of the loopback interface, empty and without persistence. */
    public static ExampleRedis embedded() throws IOException {
        int port = freePort();
        RedisServer server = RedisServer.newRedisServer()
                .port(port)
                .bind(HOST)
                .setting("save \"\"")
                .build();
        server.start();
        return new ExampleRedis("an embedded server on " + HOST + ":" + port, "redis://" + HOST + ":" + port, server);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    @Override
    public String product() {
        return "Redis";
    }

    @Override
    public String setting() {
        return "spillgate.redis.uri";
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String uri() {
        return uri;
    }

    @Override
    public boolean isOurs() {
        return own != null;
    }

    @Override
    public boolean isRunning() {
        return own == null || own.isActive();
    }

    @Override
    public void stop() throws IOException {
        own("stopped").stop();
    }

    @Override
    public void start() throws IOException {
        own("started").start();
    }

    private RedisServer own(String what) {
        if (own == null) {
            throw new UnsupportedOperationException("Redis cannot be " + what + ": it is " + name
                    + ", which is yours; expected an embedded server, for which " + VARIABLE + " must not be set");
        }
        return own;
    }

    /**
     * Stops the embedded server. Does nothing for another server.
     *
     * @throws UncheckedIOException if the server does not end; unchecked, because most callers are shutting down their
     *     process
     */
    @Override
    public void close() {
        if (own != null) {
            try {
                own.stop();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
