package io.github.spillgate.postgres;

import io.github.spillgate.testkit.ProxyServer;
import io.r2dbc.spi.ConnectionFactoryOptions;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Pattern;

/**
 * A proxy before a PostgreSQL that knows what a store does with each round trip. An observer sees each request before
 * the server gets it, and each reply before the store gets it, and holds its connection for as long as it likes.
 */
final class TripProxy implements AutoCloseable {

    /**
     * What a round trip does. One of several decisions, and a registration or a reconciliation, counts as the latter.
     */
    enum Trip {
        CONNECT,
        CHECK,
        CREATE,
        READ,
        WRITE,
        UPDATE,
        SWEEP,
        READ_TO_REGISTER,
        REGISTER,
        READ_TO_RECONCILE,
        RECONCILE,
        OTHER;

        /** The key of a mark, which only reconciliations read here. */
        private static final Pattern MARK = Pattern.compile("/1/[ -~]*!");

        private static Trip of(String sql) {
            if (sql.contains("sg_turn")) {
                return SWEEP;
            } else if (sql.contains("sg_given")) {
                return WRITE;
            } else if (sql.contains("sg_renumbered")) {
                return OTHER;
            } else if (sql.contains("sg_locked")) {
                return UPDATE;
            } else if (sql.contains("WITH ORDINALITY")) {
                return READ;
            } else if (sql.contains("CREATE UNLOGGED")) {
                return CREATE;
            }
            return sql.contains("to_regclass") ? CHECK : OTHER;
        }

        private Trip with(String values) {
            if (this != READ && this != WRITE && this != UPDATE) {
                return this;
            } else if (MARK.matcher(values).find()) {
                return this == READ ? READ_TO_RECONCILE : RECONCILE;
            } else if (values.contains("/1/instances")) {
                return this == READ ? READ_TO_REGISTER : REGISTER;
            }
            return values.contains("/1/published") ? OTHER : this;
        }
    }

    /** The end of a round trip that a proxy is about to pass on. */
    enum End {
        REQUEST,
        REPLY
    }

    interface Observer {
        void at(Trip trip, End end) throws IOException, InterruptedException;
    }

    private static final int STARTUP = 0;

    private final ProxyServer server;
    private final String uri;
    private final int behind;
    private final Collection<Socket> open = ConcurrentHashMap.newKeySet();
    private volatile Observer observer = (trip, end) -> {};
    private volatile CountDownLatch replies = new CountDownLatch(0);

    /**
     * Starts a proxy.
     *
     * @param behind the URI of the server
     */
    TripProxy(String behind) {
        this.behind = (Integer) ConnectionFactoryOptions.parse(behind).getRequiredValue(ConnectionFactoryOptions.PORT);
        server = new ProxyServer(this::serve);
        uri = behind.replace(":" + this.behind + "/", ":" + server.port() + "/");
    }

    String uri() {
        return uri;
    }

    void observe(Observer next) {
        observer = next;
    }

    /** Reads no more from the server, but for what is in a buffer, until the latch is open. */
    void holdReplies(CountDownLatch until) {
        replies = until;
    }

    /** Closes the connections that are open now. */
    void closeConnections() throws IOException {
        for (Socket socket : open) {
            socket.close();
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        closeConnections();
    }

    private void serve(Socket front) throws IOException {
        Socket back = ProxyServer.connect(behind);
        open.add(front);
        Link link = new Link();
        ProxyServer.start(() -> passOn(front, back, link::passRequests));
        ProxyServer.start(() -> passOn(back, front, link::passReplies));
    }

    private void passOn(Socket from, Socket to, Direction direction) throws IOException, InterruptedException {
        try (from;
                to) {
            direction.pass(
                    new DataInputStream(new BufferedInputStream(from.getInputStream(), 65_536)), to.getOutputStream());
        } finally {
            open.remove(from);
            open.remove(to);
        }
    }

    /** The messages of one connection. */
    private final class Link {

        private final Map<String, Trip> statements = new HashMap<>();
        private volatile Trip sent = Trip.CONNECT;

        void passRequests(DataInputStream in, OutputStream out) throws IOException, InterruptedException {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            Trip trip = Trip.CONNECT;
            for (int type = STARTUP; ; type = in.readUnsignedByte()) {
                byte[] body = copy(type, in, request);
                String text = new String(body, StandardCharsets.ISO_8859_1);
                String[] parts = text.split("\0", 3);
                switch (type) {
                    case 'P' -> statements.put(parts[0], Trip.of(parts[1]));
                    case 'B' ->
                        trip = statements.getOrDefault(parts[1], Trip.OTHER).with(text);
                    case 'Q' -> trip = Trip.of(text);
                    default -> {}
                }
                if (type == STARTUP || "SQHpX".indexOf(type) >= 0) {
                    sent = trip;
                    observer.at(trip, End.REQUEST);
                    out.write(request.toByteArray());
                    request.reset();
                }
            }
        }

        void passReplies(DataInputStream in, OutputStream out) throws IOException, InterruptedException {
            ByteArrayOutputStream reply = new ByteArrayOutputStream();
            while (true) {
                replies.await();
                int type = in.readUnsignedByte();
                copy(type, in, reply);
                if (type == 'Z') {
                    observer.at(sent, End.REPLY);
                }
                if (type == 'Z' || in.available() == 0) {
                    out.write(reply.toByteArray());
                    reply.reset();
                }
            }
        }

        /** Copies a message, and returns its body. */
        private byte[] copy(int type, DataInputStream in, ByteArrayOutputStream out) throws IOException {
            int length = in.readInt();
            byte[] body = in.readNBytes(length - Integer.BYTES);
            if (type != STARTUP) {
                out.write(type);
            }
            out.writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt(length).array());
            out.writeBytes(body);
            return body;
        }
    }

    private interface Direction {
        void pass(DataInputStream in, OutputStream out) throws IOException, InterruptedException;
    }
}
