package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.StoreClock;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A connection to one server that is opened at first use, and replaced if it is lost or does not work any more.
 *
 * <p>Each server has a lane of the store, for callers on any thread, on the user's client: the user's own connection
 * may be in a transaction or blocked. It also has a lane on each event loop of the application: a decision that is
 * requested on an event loop is sent, answered and continued on that loop.
 *
 * <p>Opening. All callers wait for the same attempt, and no cancellation ends it; otherwise a service with short
 * deadlines would never connect. If it fails, the waiting callers fail, and the next caller starts another attempt.
 * Each attempt has a thread of its own that may block, because Lettuce can connect to the client's server only in a
 * blocking way.
 *
 * <p>Loss. A broken connection is closed, its commands in flight fail, and the next caller opens another connection.
 * Lettuce would reconnect and send these commands again; but Redis may have executed them, and would then charge or
 * refund twice.
 *
 * <p>Silence. An attempt is abandoned after {@value #LONGEST_ATTEMPT_SECONDS} s, and another one begins. If an
 * abandoned attempt succeeds, its connection is closed. Lettuce ends an attempt after the timeout of the URI, 60 s by
 * default. If the store knows the URI, it shortens that. Otherwise several attempts run at a time, at most {@value
 * #MOST_ATTEMPTS}, because each holds a thread. A connection on which Redis does not reply any more is replaced,
 * because Redis may have come back elsewhere. A connection to a server that refuses writes is replaced too: a primary
 * that is demoted keeps its connections, and the next one leads to the new primary. There is at most one new connection
 * per second.
 *
 * <p>Retirement. A replaced connection stays open until another one is, up to {@value #LONGEST_RETIREMENT_SECONDS} s,
 * because a Redis that was only busy still replies there. Once another connection works, a Redis that is alive replies
 * on both. Then the old one is closed when it has no command in flight, or after
 * {@value #SHORTEST_RETIREMENT_SECONDS} s without a reply; its commands in flight fail.
 */
public final class Lane implements CommandSender {

    public static final int LONGEST_ATTEMPT_SECONDS = 5;
    static final int MOST_ATTEMPTS = 13;
    static final int LONGEST_RETIREMENT_SECONDS = 60;
    static final int SHORTEST_RETIREMENT_SECONDS = 1;

    /** How often an attempt is repeated if Lettuce has lost the reason of its failure. */
    static final int MOST_REPETITIONS = 2;

    /** After how many connections that only replied to EVAL an error names that. */
    private static final int MOST_MUTE = 2;

    /** How long an event loop of the application waits before it begins to open a connection again. */
    private static final long LOOP_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private static final long LONGEST_ATTEMPT = TimeUnit.SECONDS.toNanos(LONGEST_ATTEMPT_SECONDS);
    private static final long SHORTEST_RETIREMENT = TimeUnit.SECONDS.toNanos(SHORTEST_RETIREMENT_SECONDS);

    private final Supplier<StatefulRedisConnection<byte[], byte[]>> connector;
    private final Function<RedisAsyncCommands<byte[], byte[]>, RedisFuture<byte[]>> firstCall;
    private final LongSupplier nanoTime;
    private final Duration longestSilence;
    private final Function<OpenConnection, BatchQueue> newQueue;
    private final AtomicReference<@Nullable Opening> current = new AtomicReference<>();
    private final AtomicReference<@Nullable OpenConnection> retired = new AtomicReference<>();

    /** The number of attempts that hold a thread. */
    private final AtomicInteger attempts = new AtomicInteger();

    /** The number of the newest connection. */
    private final AtomicLong numbers = new AtomicLong();

    /** The number of replaced connections in a row on which Redis has replied to the first script only. */
    private final AtomicInteger mute = new AtomicInteger();

    /** The error for callers after closing; null as long as the lane is not closed. */
    private volatile @Nullable Supplier<LimitStoreException> closed;

    /** When an event loop of the application last began to open the connection; only that loop uses it. */
    private long loopTriedAt;

    /**
     * Creates a lane without a connection.
     *
     * @param connector connects to the server; may block
     * @param firstCall sends the script that decides, with a request that changes nothing
     * @param nanoTime the source of time
     * @param longestSilence how long commands may be in flight without any reply
     * @param newQueue creates the queue of each open connection
     */
    public Lane(
            Supplier<StatefulRedisConnection<byte[], byte[]>> connector,
            Function<RedisAsyncCommands<byte[], byte[]>, RedisFuture<byte[]>> firstCall,
            LongSupplier nanoTime,
            Duration longestSilence,
            Function<OpenConnection, BatchQueue> newQueue) {
        this.connector = connector;
        this.firstCall = firstCall;
        this.nanoTime = nanoTime;
        this.longestSilence = longestSilence;
        this.newQueue = newQueue;
        this.loopTriedAt = nanoTime.getAsLong() - LOOP_PAUSE;
    }

    /** Sends a command once the connection is open; the reply is emitted on the connection's thread. */
    @Override
    public <T> Mono<T> send(Command<T> command) {
        return Mono.defer(() -> {
            OpenConnection open = ifOpen();
            return open != null ? open.send(command) : opened().flatMap(opened -> opened.send(command));
        });
    }

    /** Returns the connection if it is open; otherwise begins to open it. */
    @Nullable
    public OpenConnection ifOpen() {
        return opening().open;
    }

    /** Returns the connection if it is open and Redis replies; does nothing otherwise. */
    @Nullable
    public OpenConnection ifResponsive() {
        Opening known = current.get();
        return known == null || known.mustBeReplaced() ? null : known.open;
    }

    /**
     * Returns the connection for a decision that is requested on the event loop of this lane. Returns null if the
     * decision must use the lane of the store: if the connection is not open, or if only this connection has stalled,
     * until a reply arrives or it is replaced.
     *
     * <p>Begins to open a connection at most once a second: other lanes may work, so no breaker would stop the
     * attempts.
     */
    @Nullable
    public OpenConnection ifUsableOnLoop() {
        OpenConnection known = ifResponsive();
        if (known == null && isTimeToTry()) {
            known = ifOpen();
        }
        return known == null || known.isStalled() ? null : known;
    }

    private boolean isTimeToTry() {
        long now = nanoTime.getAsLong();
        boolean isTime = now - loopTriedAt >= LOOP_PAUSE;
        if (isTime) {
            loopTriedAt = now;
        }
        return isTime;
    }

    /** Returns whether the server has replied on this lane to a command that was sent after this time. */
    public boolean hasAnsweredSince(long time) {
        OpenConnection known = ifResponsive();
        return known != null && known.hasAnsweredSince(time);
    }

    /** Returns whether the connection was ever open. */
    public boolean hasBeenOpen() {
        return numbers.get() > 0;
    }

    /** Returns the error for callers after closing; null as long as the lane is not closed. */
    @Nullable
    public Supplier<LimitStoreException> whyClosed() {
        return closed;
    }

    /** Emits the connection once it is open. */
    public Mono<OpenConnection> opened() {
        return Mono.defer(() -> opening().awaited);
    }

    private Opening opening() {
        while (true) {
            Opening known = current.get();
            if (known != null && !known.mustBeReplaced()) {
                return known;
            }
            Opening next = new Opening();
            if (current.compareAndSet(known, next)) {
                next.start();
                if (known != null) {
                    // On another thread, because all callers that wait for it fail there.
                    Background.scheduler().schedule(known::retire);
                }
                return next;
            }
        }
    }

    /** Begins to close the connection, because the store is closed; otherwise as {@link #beginClosing(Supplier)}. */
    public CompletableFuture<Void> beginClosing() {
        return beginClosing(Lane::isClosed);
    }

    /**
     * Begins to close the connection, and ends an attempt to open one.
     *
     * @param why the error for waiting and later callers
     * @return completes once the connection is closed, and does not wait for an attempt
     */
    public CompletableFuture<Void> beginClosing(Supplier<LimitStoreException> why) {
        closed = why;
        Opening last = current.getAndSet(null);
        OpenConnection kept = retired.getAndSet(null);
        return CompletableFuture.allOf(
                last == null ? CompletableFuture.completedFuture(null) : last.abandon(why.get()),
                kept == null ? CompletableFuture.completedFuture(null) : kept.beginClosing());
    }

    /** Keeps the newest retired connection, on which replies may still arrive, and closes older ones. */
    private void retire(OpenConnection old) {
        OpenConnection before = retired.getAndUpdate(kept -> kept != null && kept.number() > old.number() ? kept : old);
        if (before != null && before.number() > old.number()) {
            old.close();
            return;
        }
        if (before != null) {
            before.close();
        }
        if (closed != null) {
            // Closing may have been earlier.
            closeRetired(old);
            return;
        }
        Background.scheduler().schedule(() -> closeRetired(old), LONGEST_RETIREMENT_SECONDS, TimeUnit.SECONDS);
        if (numbers.get() > old.number()) {
            // The next connection may have been opened earlier.
            endRetired(old);
        }
    }

    private void closeRetired(OpenConnection old) {
        if (retired.compareAndSet(old, null)) {
            old.close();
        }
    }

    /** Ends the queue of the retired connection, because another one is open. */
    private void endRetired(OpenConnection old) {
        old.queue().end(old.unusable("the connection was lost or stopped responding"));
        closeRetiredSoon(old);
    }

    /** Closes the retired connection once Redis does not reply on it any more; another one works by now. */
    private void closeRetiredSoon(OpenConnection old) {
        Background.scheduler()
                .schedule(
                        () -> {
                            if (retired.get() != old) {
                                return;
                            }
                            if (old.isAnswering(SHORTEST_RETIREMENT)) {
                                closeRetiredSoon(old);
                            } else {
                                closeRetired(old);
                            }
                        },
                        SHORTEST_RETIREMENT,
                        TimeUnit.NANOSECONDS);
    }

    private static LimitStoreException isClosed() {
        return new LimitStoreException(
                Kind.REJECTED,
                "the store is closed: expected it to be open, for example by closing it only after the last"
                        + " limiter that decides with it");
    }

    /** Counts the connections in a row on which Redis has replied to the first script only. */
    private void countMute(OpenConnection old) {
        mute.updateAndGet(before -> old.hasAnswered() ? 0 : before + 1);
    }

    /** Ends an attempt if the connections before it show that the next one would be silent too. */
    private void checkNotMute() {
        if (mute.get() >= MOST_MUTE) {
            mute.set(0);
            throw Errors.noScripts("replied only to EVAL on " + MOST_MUTE + " connections in a row");
        }
    }

    /** One attempt to open a connection, and its result. */
    private final class Opening implements RedisConnectionStateListener {

        private final long since = nanoTime.getAsLong();
        private final StoreClock clock = new StoreClock(nanoTime);
        private final CompletableFuture<OpenConnection> outcome = new CompletableFuture<>();
        private final Mono<OpenConnection> awaited =
                Mono.fromFuture(outcome, true).cache();

        /** The connection on which the first script is sent; null if the server has not accepted it yet. */
        private volatile @Nullable StatefulRedisConnection<byte[], byte[]> accepted;

        /** The open connection; null if it is not open yet. */
        private volatile @Nullable OpenConnection open;

        void start() {
            attempts.incrementAndGet();
            Thread thread = new Thread(this::attempt, "spillgate-connect");
            thread.setDaemon(true);
            thread.start();
        }

        private void attempt() {
            OpenConnection opened;
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

        private OpenConnection connect() {
            checkNotClosed();
            checkNotMute();
            StatefulRedisConnection<byte[], byte[]> opened = connectOrFindReason();
            opened.addListener(this);
            if (closed != null || !opened.isOpen()) {
                OpenConnection.unobserved(opened.closeAsync());
                checkNotClosed();
                throw new RedisException("the connection broke as soon as it was open");
            }
            accepted = opened;
            EventLoop loop = runFirst(opened);
            return new OpenConnection(
                    opened, loop, clock, nanoTime, numbers.incrementAndGet(), longestSilence, newQueue);
        }

        /**
         * Connects. If a handshake fails while this thread stands still, Lettuce loses the reason, which users need. So
         * the attempt is repeated.
         */
        private StatefulRedisConnection<byte[], byte[]> connectOrFindReason() {
            for (int repetitions = 0; ; repetitions++) {
                try {
                    return connector.get();
                } catch (RuntimeException e) {
                    if (repetitions == MOST_REPETITIONS || !Errors.isReasonLost(e)) {
                        throw e;
                    }
                    checkNotClosed();
                }
            }
        }

        private EventLoop runFirst(StatefulRedisConnection<byte[], byte[]> opened) {
            try {
                return Handshake.runFirst(opened, firstCall, clock);
            } catch (CancellationException e) {
                checkNotClosed();
                throw Errors.noScripts("closed it on EVAL");
            }
        }

        private void opened(OpenConnection opened) {
            if (!outcome.complete(opened)) {
                opened.close();
                return;
            }
            open = opened;
            OpenConnection kept = retired.get();
            if (kept != null) {
                endRetired(kept);
            }
        }

        private void failed(Throwable e) {
            current.compareAndSet(this, null);
            outcome.completeExceptionally(Errors.unreachable(e));
        }

        /** Returns whether the next caller replaces this attempt or its connection. */
        boolean mustBeReplaced() {
            OpenConnection opened = open;
            if (opened != null) {
                return opened.isSilent() || opened.isDemoted();
            }
            return nanoTime.getAsLong() - since > LONGEST_ATTEMPT
                    && attempts.get() < MOST_ATTEMPTS
                    && !outcome.isDone();
        }

        /** Abandons the attempt, or keeps its connection only for late replies. */
        void retire() {
            OpenConnection old = open;
            StatefulRedisConnection<byte[], byte[]> unready = accepted;
            if (old != null) {
                countMute(old);
                Lane.this.retire(old);
            } else if (unready == null) {
                OpenConnection.unobserved(abandon(Errors.notConnected(LONGEST_ATTEMPT_SECONDS)));
            } else {
                OpenConnection.unobserved(abandon(Handshake.noReplyToScript()));
                // Ends the thread of the attempt, which waits for the reply.
                OpenConnection.unobserved(unready.closeAsync());
            }
        }

        /** Ends the attempt, or begins to close its connection; the result completes once that is closed. */
        CompletableFuture<Void> abandon(LimitStoreException why) {
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
