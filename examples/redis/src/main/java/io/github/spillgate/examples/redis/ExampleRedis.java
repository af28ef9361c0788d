package io.github.spillgate.examples.redis;

import java.io.Closeable;
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
public final class ExampleRedis implements Closeable {

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

    /** Returns a name to display, without credentials. */
    public String name() {
        return name;
    }

    /** Returns the URI, which may contain a password. */
    public String uri() {
        return uri;
    }

    /** Returns whether this is the embedded server, which can be stopped and started. */
    public boolean isOurs() {
        return own != null;
    }

    /**
     * Returns whether the embedded server is running, and always true for another server. Never waits for a stop or a
     * start.
     */
    public boolean isRunning() {
        return own == null || own.isActive();
    }

    /**
     * Stops the embedded server, and waits until it has ended. Connections break, new ones are refused, and all data is
     * lost. Does nothing if the server is not running.
     *
     * @throws UnsupportedOperationException if this is not the embedded server
     */
    public void stop() throws IOException {
        own("stopped").stop();
    }

    /**
     * Starts the embedded server again on the same port, empty, and waits until it responds. Does nothing if the server
     * is running.
     *
     * @throws UnsupportedOperationException if this is not the embedded server
     */
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
