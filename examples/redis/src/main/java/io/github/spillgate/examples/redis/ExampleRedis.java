package io.github.spillgate.examples.redis;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import org.jspecify.annotations.Nullable;
import redis.embedded.RedisServer;

/**
 * A Redis to try an example with: the one that {@code SPILLGATE_REDIS_URI} names, or else one that comes with the
 * build. That one can be stopped and started again, to see what happens then, and ends with this process.
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

    /** The one that the environment names, or else an {@linkplain #embedded() embedded} one. */
    public static ExampleRedis open() throws IOException {
        return open(System.getenv(VARIABLE));
    }

    /** The one that the environment would name so, or else an {@linkplain #embedded() embedded} one. */
    public static ExampleRedis open(@Nullable String named) throws IOException {
        return named == null || named.isBlank() ? embedded() : new ExampleRedis("the one of " + VARIABLE, named, null);
    }

    /** One of our own, started on a free port of the loopback interface, empty, and saving nothing. */
    public static ExampleRedis embedded() throws IOException {
        int port = freePort();
        RedisServer server = RedisServer.newRedisServer()
                .port(port)
                .bind(HOST)
                .setting("save \"\"")
                .build();
        server.start();
        return new ExampleRedis("an embedded one on " + HOST + ":" + port, "redis://" + HOST + ":" + port, server);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /** Which one it is, for people; without credentials. */
    public String name() {
        return name;
    }

    /** Where it is; there may be a password in it. */
    public String uri() {
        return uri;
    }

    /** Whether it is ours to stop and to start. */
    public boolean isOurs() {
        return own != null;
    }

    /**
     * Whether it runs, as far as we know: of one that is not ours that is taken for granted. Never waits for a stop or
     * a start.
     */
    public boolean isRunning() {
        return own == null || own.isActive();
    }

    /**
     * Stops it: connections break, new ones are refused, and what it has kept is lost. When this returns, it is gone.
     * Does nothing if it does not run.
     *
     * @throws UnsupportedOperationException if it is not ours
     */
    public void stop() throws IOException {
        own("stopped").stop();
    }

    /**
     * Starts it again on the same port, empty. When this returns, it answers. Does nothing if it runs.
     *
     * @throws UnsupportedOperationException if it is not ours
     */
    public void start() throws IOException {
        own("started").start();
    }

    private RedisServer own(String what) {
        if (own == null) {
            throw new UnsupportedOperationException("Redis cannot be " + what + ": it is " + name
                    + ", which is not ours; expected an embedded one, for which " + VARIABLE + " must not be set");
        }
        return own;
    }

    /**
     * Ends it, if it is ours.
     *
     * @throws UncheckedIOException if it does not end; unchecked, because it is mostly called where a process shuts
     *     down
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
