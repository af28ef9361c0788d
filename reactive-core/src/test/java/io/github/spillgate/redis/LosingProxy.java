package io.github.spillgate.redis;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Stands before a Redis; when it is told to, it passes the next command on, and hangs up in place of the reply; or on
 * the connections that are open by then it passes commands on, and no reply any more.
 */
final class LosingProxy implements AutoCloseable {

    private final ServerSocket server;
    private final int behind;
    private final AtomicInteger accepted = new AtomicInteger();
    private volatile boolean losing;
    private volatile int silent;
    private volatile boolean hasDroppedAReply;
    private volatile int held;

    LosingProxy(int behind) throws IOException {
        this.behind = behind;
        this.server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    int port() {
        return server.getLocalPort();
    }

    void loseTheNextReply() {
        losing = true;
    }

    void silenceWhatIsOpen() {
        silent = accepted.get();
    }

    /** Holds all replies on the connections that are open by now, until they are {@linkplain #release() released}. */
    void holdWhatIsOpen() {
        held = accepted.get();
    }

    void release() {
        held = 0;
    }

    /** Returns whether a connection was opened after the others were held. */
    boolean hasAnotherConnection() {
        return accepted.get() > held;
    }

    /** Returns whether Redis has replied on a connection that is silent. */
    boolean hasDroppedAReply() {
        return hasDroppedAReply;
    }

    private void accept() throws IOException {
        while (true) {
            Socket front = server.accept();
            int number = accepted.incrementAndGet();
            Socket back = new Socket(InetAddress.getLoopbackAddress(), behind);
            start(() -> pass(front, back, number, false));
            start(() -> pass(back, front, number, true));
        }
    }

    private void pass(Socket from, Socket to, int number, boolean replies) throws IOException {
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] buffer = new byte[8_192];
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                if (replies && losing) {
                    losing = false;
                    return;
                }
                while (replies && number <= held) {
                    LockSupport.parkNanos(1_000_000);
                }
                if (!replies || number > silent) {
                    out.write(buffer, 0, read);
                } else {
                    hasDroppedAReply = true;
                }
            }
        }
    }

    private static void start(Io io) {
        Thread thread = new Thread(() -> {
            try {
                io.run();
            } catch (IOException closed) {
                // One end has hung up, and so do we.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() {
        try {
            server.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private interface Io {
        void run() throws IOException;
    }
}
