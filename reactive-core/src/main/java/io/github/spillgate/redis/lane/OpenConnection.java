package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.StoreClock;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.LongPredicate;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/**
 * An open connection, its commands in flight, and the decisions that wait for it.
 *
 * <p>A command stays in flight until Redis replies, even if its caller has cancelled. So the connection notices when
 * Redis stops responding.
 */
public final class OpenConnection implements CommandSender {
    // Design notes.
    //
    // Redis replies in the order of the commands. Only the event loop of the connection writes and numbers them, so the
    // number of the last reply shows that all earlier commands were answered too: also those that Lettuce has timed
    // out, which drops their replies. If such a command is the last one, it seems to be in flight for ever; that only
    // leads to a new connection.
    //
    // If a connection ends while a command is being written, Lettuce may drop the command silently. So the sender
    // checks the connection afterwards.

    /** How long commands may be in flight without any reply. */
    public static final Duration LONGEST_SILENCE = Duration.ofSeconds(2);

    /** How long a connection to a demoted primary is kept at least: the next one may lead to the same server. */
    static final long SHORTEST_STAY = TimeUnit.SECONDS.toNanos(1);

    private static final String LOST = "the connection has just been lost";

    private final StatefulRedisConnection<byte[], byte[]> connection;
    private final EventLoop loop;
    private final StoreClock clock;
    private final LongSupplier nanoTime;

    /** A newer connection of the lane has a higher number. */
    private final long number;

    private final long longestSilence;
    private final long openedAt;
    private final BatchQueue queue;

    /** The breakers that have counted the loss of this connection. */
    private final Set<Object> lossObservers = ConcurrentHashMap.newKeySet();

    /** The number of the newest command; written by the event loop. */
    private volatile long sent;

    /** The number of the newest reply; written by the thread that reports replies. */
    private volatile long answered;

    /** The time of the newest reply, or of the first command in flight if that was sent later. */
    private volatile long activeAt;

    /** When the newest command with a reply was sent. */
    private volatile long answeredSentAt;

    /** The number of the newest reply when only this connection was found to be silent; negative before. */
    private volatile long stalledAfter = -1;

    private volatile boolean isRefused;

    /** The commands that are written and not flushed; null if each command is flushed. Used by the event loop. */
    private @Nullable List<PendingCommand<?>> unflushed;

    OpenConnection(
            StatefulRedisConnection<byte[], byte[]> connection,
            EventLoop loop,
            StoreClock clock,
            LongSupplier nanoTime,
            long number,
            Duration longestSilence,
            Function<OpenConnection, BatchQueue> newQueue) {
        this.connection = connection;
        this.loop = loop;
        this.clock = clock;
        this.nanoTime = nanoTime;
        this.number = number;
        this.longestSilence = longestSilence.toNanos();
        this.openedAt = nanoTime.getAsLong();
        this.queue = newQueue.apply(this);
        queue.prepareLoop();
    }

    public BatchQueue queue() {
        return queue;
    }

    long number() {
        return number;
    }

    /**
     * Sends a command; the reply is emitted on the connection's thread. A command that is cancelled before that is not
     * sent.
     */
    @Override
    public <T> Mono<T> send(Command<T> command) {
        return new Mono<>() {
            @Override
            public void subscribe(CoreSubscriber<? super T> actual) {
                actual.onSubscribe(new PendingCommand<>(command, actual));
            }
        };
    }

    /**
     * Runs a task that sends several commands, and writes them to the socket in one system call. Must be called on the
     * event loop, and not from within such a task.
     */
    void sendTogether(Runnable sends) {
        List<PendingCommand<?>> commands = new ArrayList<>();
        unflushed = commands;
        connection.setAutoFlushCommands(false);
        try {
            sends.run();
        } finally {
            unflushed = null;
            connection.setAutoFlushCommands(true);
            connection.flushCommands();
            commands.forEach(PendingCommand::failIfLost);
        }
    }

    /**
     * Runs a task on the event loop, on which commands are written and replies arrive: now if that is the current
     * thread.
     *
     * @return false if the loop has ended, and the task will not run
     */
    boolean run(Runnable task) {
        if (loop.inEventLoop()) {
            task.run();
            return true;
        }
        return runLater(0, task);
    }

    /**
     * Runs a task on the event loop, after what the loop does now.
     *
     * @param nanos the least delay
     * @return false if the loop has ended, and the task will not run
     */
    boolean runLater(long nanos, Runnable task) {
        try {
            if (nanos == 0) {
                loop.execute(task);
            } else {
                Future<?> unused = loop.schedule(task, nanos, TimeUnit.NANOSECONDS);
            }
            return true;
        } catch (RejectedExecutionException e) {
            return false;
        }
    }

    long now() {
        return nanoTime.getAsLong();
    }

    /** Returns whether commands have been in flight for too long without any reply. */
    boolean isSilent() {
        return sent != answered && nanoTime.getAsLong() - activeAt > longestSilence;
    }

    /** Returns whether Redis has replied to any command since the connection was opened. */
    boolean hasAnswered() {
        return answered > 0;
    }

    /** Returns whether commands are in flight and Redis has replied within this time. */
    boolean isAnswering(long nanos) {
        return sent != answered && nanoTime.getAsLong() - activeAt <= nanos;
    }

    /** Returns whether Redis has replied here to a command that was sent after this time. */
    boolean hasAnsweredSince(long time) {
        return answered > 0 && answeredSentAt - time > 0;
    }

    /**
     * Returns whether only this connection is silent, for this time at least: Redis has replied on another one to a
     * command that was sent later than one that is in flight here.
     *
     * @param serverAnsweredSince returns whether Redis has replied, on any connection, to a command that was sent after
     *     a time
     */
    boolean isSilentAlone(long nanos, LongPredicate serverAnsweredSince) {
        long newest = answered;
        if (isStalled()) {
            return true;
        }
        // The oldest command in flight was sent at this time or earlier.
        long since = activeAt;
        if (sent == newest || nanoTime.getAsLong() - since < nanos || !serverAnsweredSince.test(since)) {
            return false;
        }
        stalledAfter = newest;
        return true;
    }

    /** Returns whether only this connection was found to be silent, and no reply has arrived since. */
    boolean isStalled() {
        return stalledAfter == answered && sent != answered;
    }

    /** Records why Redis refused a command: a primary that is demoted to a replica keeps its connections. */
    void noteRefusal(@Nullable String why) {
        if (Errors.isDemotion(why)) {
            isRefused = true;
        }
    }

    /** Returns whether the server may have been demoted, so that a new connection may lead to the new primary. */
    boolean isDemoted() {
        return isRefused && nanoTime.getAsLong() - openedAt > SHORTEST_STAY;
    }

    /** Closes the connection without waiting; commands in flight fail. */
    void close() {
        unobserved(beginClosing());
    }

    /** Begins to close the connection; the result completes once it is closed. */
    CompletableFuture<Void> beginClosing() {
        CompletableFuture<Void> closed = new CompletableFuture<>();
        // On the event loop, because closing takes Lettuce's lock for writing.
        boolean willClose = run(() -> {
            if (connection.isOpen()) {
                Mono.fromFuture(connection.closeAsync())
                        .subscribe(done -> {}, closed::completeExceptionally, () -> closed.complete(null));
            } else {
                closed.complete(null);
            }
        });
        if (!willClose) {
            closed.complete(null);
        }
        return closed;
    }

    /** Ignores how closing ends, because the connection is gone in either case. */
    public static void unobserved(CompletableFuture<Void> closing) {
        Mono.fromFuture(closing).subscribe(done -> {}, error -> {});
    }

    private long countSent(long now) {
        long number = sent + 1;
        if (answered == number - 1) {
            activeAt = now;
        }
        sent = number;
        return number;
    }

    private void countAnswered(long number, long sentAt) {
        activeAt = nanoTime.getAsLong();
        answeredSentAt = sentAt;
        answered = number;
    }

    /**
     * Returns the failure of requests that were not sent on this connection, and will not be. Together with its lost
     * commands they count as one failure.
     */
    LimitStoreException unusable(String why) {
        return new LimitStoreException(
                Kind.UNAVAILABLE,
                "Redis is unavailable: " + why,
                new ConnectionLostException(why, null, lossObservers));
    }

    /** The failure of a command. Without a reply, that is the loss of this connection, if the connection is lost. */
    private Throwable failure(Throwable e) {
        return e instanceof RedisCommandExecutionException || connection.isOpen()
                ? e
                : new ConnectionLostException(Errors.messageOf(e), e, lossObservers);
    }

    /** A command from its submission to its reply. The reply is awaited even after a cancellation. */
    private final class PendingCommand<T> implements Subscription, CoreSubscriber<T> {
        // Design notes.
        //
        // Lettuce keeps each command until a tick of the timer for its timeout, up to 100 ms after the reply. Under
        // load these are thousands. So neither the command nor the caller is referenced once it is not needed:
        // otherwise all requests that waited for the reply would be kept too, and garbage collection would copy them,
        // which makes its pauses several times as long (decision record 0036).

        /** The command, until it is submitted. */
        private final AtomicReference<@Nullable Command<T>> unsubmitted;

        /** The caller, until it gets an answer or cancels. */
        private final AtomicReference<@Nullable CoreSubscriber<? super T>> caller;

        private long number;
        private long sentAt;

        PendingCommand(Command<T> command, CoreSubscriber<? super T> caller) {
            this.unsubmitted = new AtomicReference<>(command);
            this.caller = new AtomicReference<>(caller);
        }

        /** Submits the command: its reply is then always requested. */
        @Override
        public void request(long n) {
            Command<T> command = Operators.validate(n) ? unsubmitted.getAndSet(null) : null;
            if (command != null && !OpenConnection.this.run(() -> submit(command))) {
                fail(unusable(LOST));
            }
        }

        @Override
        public void cancel() {
            caller.set(null);
        }

        private void submit(Command<T> command) {
            if (caller.get() == null) {
                return;
            }
            if (!connection.isOpen()) {
                fail(unusable(LOST));
                return;
            }
            Publisher<T> sending;
            try {
                sending = command.on(connection.reactive(), clock);
            } catch (RuntimeException | LinkageError e) {
                fail(e instanceof LinkageError missing ? Errors.unreachable(missing) : e);
                return;
            }
            sentAt = nanoTime.getAsLong();
            number = countSent(sentAt);
            sending.subscribe(this);
            if (unflushed == null) {
                failIfLost();
            } else {
                unflushed.add(this);
            }
        }

        void failIfLost() {
            if (!connection.isOpen()) {
                fail(failure(new RedisException("the connection was lost while the command was being sent")));
            }
        }

        @Override
        public Context currentContext() {
            CoreSubscriber<? super T> waiting = caller.get();
            return waiting == null ? Context.empty() : waiting.currentContext();
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(T reply) {
            countAnswered(number, sentAt);
            CoreSubscriber<? super T> waiting = caller.getAndSet(null);
            if (waiting != null) {
                waiting.onNext(reply);
                waiting.onComplete();
            }
        }

        @Override
        public void onComplete() {
            CoreSubscriber<? super T> waiting = caller.getAndSet(null);
            if (waiting != null) {
                waiting.onComplete();
            }
        }

        @Override
        public void onError(Throwable e) {
            if (e instanceof RedisCommandExecutionException) {
                countAnswered(number, sentAt);
                noteRefusal(e.getMessage());
            }
            fail(failure(e));
        }

        private void fail(Throwable e) {
            CoreSubscriber<? super T> waiting = caller.getAndSet(null);
            if (waiting != null) {
                waiting.onError(e);
            }
        }
    }
}
