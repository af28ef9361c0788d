package io.github.spillgate.testkit;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * A proxy before a Redis that does not pass every command on, like managed services and proxies of the trade. It reads
 * commands one after another, and passes each on only after the reply to the one before.
 */
public final class CommandProxy implements Closeable {

    /** The answer of a rule to pass a command on. */
    public static final String PASS = "";

    /** The answer of a rule to close the connection instead of replying. */
    public static final String CLOSE = "close";

    /** The answer of a rule to pass a command on, and to close the connection instead of passing its reply on. */
    public static final String LOSE_REPLY = "lose";

    /** The answer of a rule to drop a command, and to reply to the next one. */
    public static final String DROP = "drop";

    private static final int LINE_END = 2;

    private final ProxyServer server;
    private final int behind;
    private final Map<String, AtomicLong> calls = new ConcurrentHashMap<>();
    private final Collection<Socket> open = ConcurrentHashMap.newKeySet();
    private final Collection<Socket> silent = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean isLosing = new AtomicBoolean();
    private volatile boolean hasDroppedReply;
    private volatile Function<List<String>, String> rule = command -> PASS;
    private volatile UnaryOperator<String> change = UnaryOperator.identity();

    /**
     * Starts a proxy that passes everything on.
     *
     * @param behind the port of the Redis
     */
    public CommandProxy(int behind) {
        this.behind = behind;
        this.server = new ProxyServer(front -> {
            open.add(front);
            ProxyServer.start(() -> serve(front));
        });
    }

    /** Returns a rule that passes these commands on, and answers all others with this error. */
    public static UnaryOperator<String> only(Set<String> passed, String error) {
        return command -> passed.contains(command) ? PASS : error;
    }

    public int port() {
        return server.port();
    }

    /**
     * Answers commands by a rule, which gets the name of a command in upper case.
     *
     * @param next returns {@link #PASS}, {@link #CLOSE}, {@link #LOSE_REPLY}, {@link #DROP}, or the text of an error
     */
    public void answer(UnaryOperator<String> next) {
        rule = words -> next.apply(words.get(0));
    }

    /**
     * Answers commands by a rule, which gets the name of a command in upper case, and its arguments.
     *
     * @param next returns the same as in {@link #answer}
     */
    public void answerWords(Function<List<String>, String> next) {
        rule = next;
    }

    /**
     * Changes the replies of Redis.
     *
     * @param next returns what the client gets in place of a reply, both with a character for each byte
     */
    public void changeReplies(UnaryOperator<String> next) {
        change = next;
    }

    /** Passes the next command on, and closes its connection instead of passing the reply on. */
    public void loseNextReply() {
        isLosing.set(true);
    }

    /** Passes no more replies on to the connections that are open now, but still their commands. */
    public void silenceOpen() {
        silent.addAll(open);
    }

    /** Returns whether Redis has replied on a connection that is silent. */
    public boolean hasDroppedReply() {
        return hasDroppedReply;
    }

    /** Returns how many commands of this name clients have sent. */
    public long calls(String command) {
        AtomicLong known = calls.get(command);
        return known == null ? 0 : known.get();
    }

    @Override
    public void close() {
        server.close();
        try {
            for (Socket socket : open) {
                socket.close();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void serve(Socket front) throws IOException {
        try (front;
                Socket back = ProxyServer.connect(behind)) {
            InputStream in = new BufferedInputStream(front.getInputStream());
            InputStream replies = new BufferedInputStream(back.getInputStream());
            OutputStream out = front.getOutputStream();
            OutputStream commands = back.getOutputStream();
            while (true) {
                ByteArrayOutputStream command = new ByteArrayOutputStream();
                List<String> words = copyCommand(in, command);
                calls.computeIfAbsent(words.get(0), none -> new AtomicLong()).incrementAndGet();
                String answer = rule.apply(words);
                if (answer.equals(CLOSE)) {
                    return;
                }
                if (answer.equals(DROP)) {
                    continue;
                }
                if (answer.equals(PASS) || answer.equals(LOSE_REPLY)) {
                    commands.write(command.toByteArray());
                    ByteArrayOutputStream reply = new ByteArrayOutputStream();
                    copyReply(replies, reply);
                    if (answer.equals(LOSE_REPLY) || isLosing.compareAndSet(true, false)) {
                        return;
                    }
                    if (silent.contains(front)) {
                        hasDroppedReply = true;
                        continue;
                    }
                    out.write(change.apply(reply.toString(StandardCharsets.ISO_8859_1))
                            .getBytes(StandardCharsets.ISO_8859_1));
                } else {
                    out.write(("-" + answer + "\r\n").getBytes(StandardCharsets.UTF_8));
                }
            }
        } finally {
            open.remove(front);
            silent.remove(front);
        }
    }

    /** Copies an array of strings, and returns them, the first in upper case. */
    private static List<String> copyCommand(InputStream in, OutputStream out) throws IOException {
        int length = Integer.parseInt(copyLine(in, out).substring(1));
        List<String> words = new ArrayList<>(length);
        words.add(copyString(in, out).toUpperCase(Locale.ROOT));
        while (words.size() < length) {
            words.add(copyString(in, out));
        }
        return words;
    }

    private static String copyString(InputStream in, OutputStream out) throws IOException {
        int length = Integer.parseInt(copyLine(in, out).substring(1));
        byte[] bytes = in.readNBytes(length + LINE_END);
        out.write(bytes);
        return new String(bytes, 0, Math.min(length, bytes.length), StandardCharsets.UTF_8);
    }

    private static void copyReply(InputStream in, OutputStream out) throws IOException {
        String line = copyLine(in, out);
        char type = line.charAt(0);
        String rest = line.substring(1);
        if ("$!=".indexOf(type) >= 0) {
            int length = Integer.parseInt(rest);
            if (length >= 0) {
                out.write(in.readNBytes(length + LINE_END));
            }
        } else if ("*~>%".indexOf(type) >= 0) {
            int parts = Integer.parseInt(rest) * (type == '%' ? 2 : 1);
            for (int i = 0; i < parts; i++) {
                copyReply(in, out);
            }
        }
    }

    private static String copyLine(InputStream in, OutputStream out) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = in.read(); next != '\n'; next = in.read()) {
            if (next < 0) {
                throw new EOFException();
            }
            line.write(next);
            out.write(next);
        }
        out.write('\n');
        return line.toString(StandardCharsets.UTF_8).stripTrailing();
    }
}
