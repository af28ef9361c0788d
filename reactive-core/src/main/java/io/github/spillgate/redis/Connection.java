package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * A connection of our own on the user's client, opened when it is first needed. His own may be in a transaction, or
 * blocked.
 *
 * <p>An attempt to open it belongs to nobody: whoever comes while it is under way waits for it, and no one who leaves
 * ends it; otherwise a service whose callers are impatient would never get connected. When it fails, those who waited
 * are told, and the next to come starts another. Opening takes a thread that may block, because a client offers to
 * connect to the server it was made for only in that way; and one of its own, because others would wait behind an
 * attempt that hangs.
 *
 * <p>A connection that breaks is given up, with all that was sent and not answered, and the next to come opens another.
 * Lettuce would connect it anew and send again what was not answered: but Redis may have done it, and then what was
 * taken would be taken twice, and what was given back be given back twice.
 *
 * <p>What hangs is not waited for either, by whoever comes next. An attempt that takes longer than
 * {@value #LONGEST_ATTEMPT_SECONDS} s is given up, and another one begins; there are at most {@value #MOST_ATTEMPTS} at
 * a time, because each holds a thread until Lettuce ends it; should one succeed after all, it is closed. A connection
 * on which Redis has fallen silent is laid aside: others are asked on a new one, or a Redis that has come back
 * elsewhere would be kept waiting until the network gives up. So is a connection on which Redis refuses writes, as a
 * primary does that has become a replica: that breaks no connection, and the next one leads to the new primary. There
 * is at most one new connection a second.
 *
 * <p>A connection that is laid aside stays open as long as no other one is, up to {@value #LONGEST_ASIDE_SECONDS} s,
 * because a Redis that has only been busy still answers there. Once another connection works, a Redis that is alive
 * answers on both: the old one is closed when it has no command in flight or has been silent for
 * {@value #SHORTEST_ASIDE_SECONDS} s more. What was in flight on it then fails, so that it holds up nothing else.
 */
final class Connection implements CommandSender {

    static final int LONGEST_ATTEMPT_SECONDS = 5;
    static final int MOST_ATTEMPTS = 2;
    static final int LONGEST_ASIDE_SECONDS = 60;
    static final int SHORTEST_ASIDE_SECONDS = 1;

    private static final long LONGEST_ATTEMPT = TimeUnit.SECONDS.toNanos(LONGEST_ATTEMPT_SECONDS);
    private static final long SHORTEST_ASIDE = TimeUnit.SECONDS.toNanos(SHORTEST_ASIDE_SECONDS);

    private final Supplier<StatefulRedisConnection<byte[], byte[]>> connects;
    private final LongSupplier nanoTime;
    private final AtomicReference<@Nullable Opening> current = new AtomicReference<>();
    private final AtomicReference<@Nullable OpenConnection> aside = new AtomicReference<>();
    private final AtomicInteger attempts = new AtomicInteger();
    private final AtomicLong numbers = new AtomicLong();

    /** What those are told who come too late; null as long as it is not closed. */
    private volatile @Nullable Supplier<LimitStoreException> closed;

    /** A connection to the server that the client was made for, which has to be a primary. */
    Connection(RedisClient client) {
        this(
                () -> Role.primary(client.connect(ByteArrayCodec.INSTANCE)),
                () -> Schedulers.parallel().now(TimeUnit.NANOSECONDS));
    }

    /**
     * A connection to one node of a cluster, on a client that was made for none. What a replica is asked there, it
     * passes on.
     */
    Connection(RedisClient client, RedisURI uri) {
        this(
                () -> client.connect(ByteArrayCodec.INSTANCE, uri),
                () -> Schedulers.parallel().now(TimeUnit.NANOSECONDS));
    }

    /** A connection that is opened so, by another time, for tests. */
    Connection(Supplier<StatefulRedisConnection<byte[], byte[]>> connects, LongSupplier nanoTime) {
        this.connects = connects;
        this.nanoTime = nanoTime;
    }

    /** Sends a command, once there is a connection; the reply arrives on the connection's thread. */
    @Override
    public <T> Mono<T> ask(Command<T> command) {
        return Mono.defer(() -> {
            OpenConnection open = ifOpen();
            return open != null ? open.ask(command) : opened().flatMap(opened -> opened.ask(command));
        });
    }

    /** The connection, if it is open; if it is not, it is being opened from now on. */
    @Nullable
    OpenConnection ifOpen() {
        return opening().open;
    }

    /** The connection, if it is open and Redis answers there; does nothing about it if it is not. */
    @Nullable
    OpenConnection ifWell() {
        Opening known = current.get();
        return known == null || known.hangs() ? null : known.open;
    }

    /** Whether it has ever been open. */
    boolean hasBeenOpen() {
        return numbers.get() > 0;
    }

    /** The connection, once it is open. */
    Mono<OpenConnection> opened() {
        return Mono.defer(() -> opening().awaited);
    }

    private Opening opening() {
        while (true) {
            Opening known = current.get();
            if (known != null && !known.hangs()) {
                return known;
            }
            Opening next = new Opening();
            if (current.compareAndSet(known, next)) {
                next.start();
                if (known != null) {
                    // Elsewhere, because all who wait for it are told.
                    Schedulers.parallel().schedule(known::layAside);
                }
                return next;
            }
        }
    }

    /**
     * Closes the connection, if there is one or one is being opened, because the store is closed; does not wait for it.
     */
    void close() {
        OpenConnection.unobserved(beginClosing());
    }

    /**
     * Closes the connection, as {@link #close()} does, and tells when it is closed; one that is being opened is not
     * waited for.
     */
    CompletableFuture<Void> beginClosing() {
        return beginClosing(Connection::isClosed);
    }

    /**
     * Closes the connection, as {@link #close()} does, and tells those who wait for it, or still come, another reason.
     */
    void close(Supplier<LimitStoreException> why) {
        OpenConnection.unobserved(beginClosing(why));
    }

    private CompletableFuture<Void> beginClosing(Supplier<LimitStoreException> why) {
        closed = why;
        Opening last = current.getAndSet(null);
        OpenConnection kept = aside.getAndSet(null);
        return CompletableFuture.allOf(
                last == null ? CompletableFuture.completedFuture(null) : last.giveUp(why.get()),
                kept == null ? CompletableFuture.completedFuture(null) : kept.beginClosing());
    }

    /** Keeps one connection for the answers that may still come, the newest, and closes the others. */
    private void layAside(OpenConnection silent) {
        OpenConnection before =
                aside.getAndUpdate(kept -> kept != null && kept.number() > silent.number() ? kept : silent);
        if (before != null && before.number() > silent.number()) {
            silent.close();
            return;
        }
        if (before != null) {
            before.close();
        }
        if (closed != null) {
            // Who has closed may have looked too early.
            closeAside(silent);
            return;
        }
        Schedulers.parallel().schedule(() -> closeAside(silent), LONGEST_ASIDE_SECONDS, TimeUnit.SECONDS);
        if (numbers.get() > silent.number()) {
            // The next one may have looked for this one too early.
            closeAsideSoon(silent);
        }
    }

    private void closeAside(OpenConnection silent) {
        if (aside.compareAndSet(silent, null)) {
            silent.close();
        }
    }

    /** Closes the connection that is aside, once it has nothing more to say; another one works by now. */
    private void closeAsideSoon(OpenConnection silent) {
        Schedulers.parallel()
                .schedule(
                        () -> {
                            if (aside.get() != silent) {
                                return;
                            }
                            if (silent.isAnswering(SHORTEST_ASIDE)) {
                                closeAsideSoon(silent);
                            } else {
                                closeAside(silent);
                            }
                        },
                        SHORTEST_ASIDE,
                        TimeUnit.NANOSECONDS);
    }

    private static LimitStoreException isClosed() {
        return new LimitStoreException(
                "the store is closed: expected it to be open, for example by closing it only after the last"
                        + " limiter that decides with it",
                null);
    }

    private static LimitStoreException tookTooLong() {
        return new LimitStoreUnreachableException(
                "Redis is unavailable: no connection within " + LONGEST_ATTEMPT_SECONDS + " s; retrying", null);
    }

    /** One attempt to open a connection, and what came of it. */
    private final class Opening implements RedisConnectionStateListener {

        private final long since = nanoTime.getAsLong();
        private final RedisClock clock = new RedisClock(nanoTime);
        private final CompletableFuture<OpenConnection> outcome = new CompletableFuture<>();
        private final Mono<OpenConnection> awaited =
                Mono.fromFuture(outcome, true).cache();

        /** What came of it, for those who come when it is there. */
        private volatile @Nullable OpenConnection open;

        void start() {
            attempts.incrementAndGet();
            Thread thread = new Thread(this::attempt, "spillgate-connect");
            thread.setDaemon(true);
            thread.start();
        }

        private void attempt() {
            StatefulRedisConnection<byte[], byte[]> opened;
            try {
                opened = connect();
            } catch (Throwable e) {
                attempts.decrementAndGet();
                failed(e);
                return;
            }
            attempts.decrementAndGet();
            opened(opened);
        }

        private StatefulRedisConnection<byte[], byte[]> connect() {
            checkNotClosed();
            StatefulRedisConnection<byte[], byte[]> opened = connects.get();
            opened.addListener(this);
            if (closed != null || !opened.isOpen()) {
                OpenConnection.unobserved(opened.closeAsync());
                checkNotClosed();
                throw new RedisException("the connection broke as soon as it was open");
            }
            clock.ask(opened);
            return opened;
        }

        private void opened(StatefulRedisConnection<byte[], byte[]> connection) {
            OpenConnection opened = new OpenConnection(connection, clock, nanoTime, numbers.incrementAndGet());
            if (!outcome.complete(opened)) {
                opened.close();
                return;
            }
            open = opened;
            OpenConnection kept = aside.get();
            if (kept != null) {
                closeAsideSoon(kept);
            }
        }

        private void failed(Throwable e) {
            current.compareAndSet(this, null);
            outcome.completeExceptionally(Errors.unreachable(e));
        }

        boolean hangs() {
            OpenConnection opened = open;
            if (opened != null) {
                return opened.isSilent() || opened.isMisled();
            }
            return nanoTime.getAsLong() - since > LONGEST_ATTEMPT
                    && attempts.get() < MOST_ATTEMPTS
                    && !outcome.isDone();
        }

        /** Gives up the attempt, or leaves the connection that it has led to for late answers only. */
        void layAside() {
            OpenConnection silent = open;
            if (silent == null) {
                OpenConnection.unobserved(giveUp(tookTooLong()));
            } else {
                Connection.this.layAside(silent);
            }
        }

        /** Ends the attempt, or the connection that it has led to, and tells when that is closed. */
        CompletableFuture<Void> giveUp(LimitStoreException why) {
            return !outcome.completeExceptionally(why) && !outcome.isCompletedExceptionally()
                    ? outcome.join().beginClosing()
                    : CompletableFuture.completedFuture(null);
        }

        @Override
        public void onRedisDisconnected(RedisChannelHandler<?, ?> broken) {
            current.compareAndSet(this, null);
            if (!broken.isClosed()) {
                OpenConnection.unobserved(broken.closeAsync());
            }
        }

        private void checkNotClosed() {
            Supplier<LimitStoreException> why = closed;
            if (why != null) {
                throw why.get();
            }
        }
    }
}
