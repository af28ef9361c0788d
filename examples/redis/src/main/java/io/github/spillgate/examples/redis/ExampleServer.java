package io.github.spillgate.examples.redis;

import java.io.Closeable;
import java.io.IOException;

/** The server that keeps the counts of an example. One of our own can be stopped and started. */
public interface ExampleServer extends Closeable {

    /** Returns the name of the program, such as {@code Redis}. */
    String product();

    /** Returns a name to display, without credentials. */
    String name();

    /** Returns the setting for its URI, such as {@code spillgate.redis.uri}. */
    String setting();

    /** Returns the URI, which may contain a password. */
    String uri();

    /** Returns whether this is a server of our own, which can be stopped and started. */
    boolean isOurs();

    /**
     * Returns whether our own server is running, and always true for another one. Never waits for a stop or a start.
     */
    boolean isRunning();

    /**
     * Stops our own server, and waits until it has ended. Connections break, new ones are refused, and all data is
     * lost. Does nothing if the server is not running.
     *
     * @throws UnsupportedOperationException if this is not a server of our own
     */
    void stop() throws IOException;

    /**
     * Starts our own server again on the same port, empty, and waits until it responds. Does nothing if the server is
     * running.
     *
     * @throws UnsupportedOperationException if this is not a server of our own
     */
    void start() throws IOException;

    /** Stops our own server. Does nothing for another one. */
    @Override
    void close();
}
