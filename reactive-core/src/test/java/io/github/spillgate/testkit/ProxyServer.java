package io.github.spillgate.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** The socket of a proxy before a server, and threads that pass bytes on. */
public final class ProxyServer implements AutoCloseable {

    private final ServerSocket socket;

    /** What a thread does until one end closes its connection. */
    @FunctionalInterface
    public interface Work {
        void run() throws IOException, InterruptedException;
    }

    /** What a proxy does with a new connection. If it fails, the connection is closed. */
    @FunctionalInterface
    public interface Service {
        void serve(Socket front) throws IOException;
    }

    public ProxyServer(Service service) {
        try {
            socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        start(() -> {
            while (true) {
                Socket front = socket.accept();
                try {
                    front.setTcpNoDelay(true);
                    service.serve(front);
                } catch (IOException refused) {
                    front.close();
                }
            }
        });
    }

    /** Connects to the server behind the proxy. */
    public static Socket connect(int port) throws IOException {
        Socket back = new Socket(InetAddress.getLoopbackAddress(), port);
        back.setTcpNoDelay(true);
        return back;
    }

    public int port() {
        return socket.getLocalPort();
    }

    /** Starts a daemon thread. */
    public static void start(Work work) {
        Thread thread = new Thread(
                () -> {
                    try {
                        work.run();
                    } catch (IOException | InterruptedException closed) {
                        // One end has closed the connection, and so does the other.
                    }
                },
                "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
