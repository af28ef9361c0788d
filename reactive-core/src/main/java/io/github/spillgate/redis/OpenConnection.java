package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreUnavailableException;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.MonoSink;
import reactor.util.context.Context;

/**
 * A connection that is open, and how much is under way on it.
 *
 * <p>A command that has been sent stays under way until Redis answers it, though nobody may wait for it any more. So it
 * shows when Redis has fallen silent.
 */
final class OpenConnection implements CommandSender {
    // Design notes.
    //
    // Redis answers in the order in which it was asked. So the commands are numbered as they are sent, which only
    // one thread does at a time, and the number of the last answer tells that all before it have been answered too,
    // also those that Lettuce has given up by a timeout of its own, of whose answers it tells nobody. If such a
    // command is the last one, it seems to be under way for ever; the worst that comes of it is a new connection.
    //
    // Lettuce keeps an order only among the threads that are not the connection's own: what these write stands in that
    // thread's queue of tasks, while what it writes itself goes out at once, before all of them. So that one leaves its
    // commands to another thread as long as something may stand in its queue.
    //
    // To write a command by itself costs the connection's thread a task and a call of the system. So where more of them
    // wait in the turnstile, they are held, and written when who is inside goes.
    //
    // Where a connection ends while a command is being written, Lettuce may lay the command aside and never speak of
    // it again. So who has sent one looks whether the connection is still there.

    /** How long something may be under way while nothing at all comes back. */
    static final long LONGEST_SILENCE = TimeUnit.SECONDS.toNanos(2);

    /** How long a connection is kept that does not lead to the primary: the next one may lead to the same server. */
    static final long SHORTEST_STAY = TimeUnit.SECONDS.toNanos(1);

    private final StatefulRedisConnection<byte[], byte[]> connection;
    private final RedisClock clock;
    private final LongSupplier nanoTime;
    private final long number;
    private final long openedAt;
    private final Turnstile turnstile = new Turnstile(this::wouldOvertake, this::sendHeld);

    /** The number of the newest command; written inside the turnstile. */
    private volatile long sent;

    /**
     * The number of the newest command that another thread than the connection's has written; written inside the
     * turnstile.
     */
    private volatile long sentByOthers;

    /** Commands that are held to be written together; none if they are not. Used inside the turnstile. */
    private final List<PendingCommand<?>> held = new ArrayList<>();

    /** The thread that answers come on. */
    private volatile @Nullable Thread reader;

    /** The number of the newest answer; written by the connection's thread. */
    private volatile long answered;

    /** When the newest answer came, or when the first command left that none has come after. */
    private volatile long heardAt;

    private volatile boolean mayBeMisled;

    OpenConnection(
            StatefulRedisConnection<byte[], byte[]> connection, RedisClock clock, LongSupplier nanoTime, long number) {
        this.connection = connection;
        this.clock = clock;
        this.nanoTime = nanoTime;
        this.number = number;
        this.openedAt = nanoTime.getAsLong();
    }

    /** The greater, the newer. */
    long number() {
        return number;
    }

    /**
     * Sends a command; the reply arrives on the connection's thread. A subscriber that cancels before the command is
     * sent prevents it.
     */
    @Override
    public <T> Mono<T> ask(Command<T> command) {
        return Mono.create(sink -> {
            Mono<T> sending;
            try {
                sending = command.on(connection.reactive(), clock);
            } catch (LinkageError e) {
                sink.error(Errors.unreachable(e));
                return;
            }
            turnstile.execute(new PendingCommand<>(sending, sink));
        });
    }

    long now() {
        return nanoTime.getAsLong();
    }

    /** Does something where commands are written, one thread at a time. */
    void inTurn(Runnable task) {
        turnstile.execute(task);
    }

    /** Whether something has been under way for long, and nothing at all has come back in that time. */
    boolean isSilent() {
        return sent != answered && nanoTime.getAsLong() - heardAt > LONGEST_SILENCE;
    }

    /** Returns whether commands are in flight and an answer has come within this time. */
    boolean isAnswering(long nanos) {
        return sent != answered && nanoTime.getAsLong() - heardAt <= nanos;
    }

    /** Hears why Redis has refused something: it may be the primary no more, and that breaks no connection. */
    void noteRefusal(@Nullable String why) {
        if (Errors.isToldElsewhere(why)) {
            mayBeMisled = true;
        }
    }

    /** Whether another connection may lead to the primary, where this one does not. */
    boolean isMisled() {
        return mayBeMisled && nanoTime.getAsLong() - openedAt > SHORTEST_STAY;
    }

    /** Closes the connection, with all that is under way; does not wait for it. */
    void close() {
        unobserved(beginClosing());
    }

    /**
     * Closes the connection, and tells when it is closed, if it is not already. In turn, because it takes the lock of
     * writing.
     */
    CompletableFuture<Void> beginClosing() {
        CompletableFuture<Void> closed = new CompletableFuture<>();
        turnstile.execute(() -> {
            if (connection.isOpen()) {
                Mono.fromFuture(connection.closeAsync())
                        .subscribe(done -> {}, closed::completeExceptionally, () -> closed.complete(null));
            } else {
                closed.complete(null);
            }
        });
        return closed;
    }

    /** Whether it closes well or badly, it is gone, and nobody is left to be told. */
    static void unobserved(CompletableFuture<Void> closing) {
        Mono.fromFuture(closing).subscribe(done -> {}, error -> {});
    }

    private long countSent() {
        long number = sent + 1;
        if (answered == number - 1) {
            heardAt = nanoTime.getAsLong();
        }
        sent = number;
        if (Thread.currentThread() != reader) {
            sentByOthers = number;
        }
        return number;
    }

    private void hold(PendingCommand<?> question) {
        if (held.isEmpty()) {
            connection.setAutoFlushCommands(false);
        }
        held.add(question);
    }

    private void sendHeld() {
        if (held.isEmpty()) {
            return;
        }
        connection.setAutoFlushCommands(true);
        connection.flushCommands();
        held.forEach(PendingCommand::failIfLost);
        held.clear();
    }

    private boolean wouldOvertake() {
        return Thread.currentThread() == reader && answered < sentByOthers;
    }

    private void countAnswered(long number) {
        heardAt = nanoTime.getAsLong();
        answered = number;
        reader = Thread.currentThread();
    }

    /** A command on its way. Who has asked may leave; the answer is awaited all the same. */
    private final class PendingCommand<T> implements Runnable, CoreSubscriber<T> {

        private final Mono<T> command;
        private final MonoSink<T> sink;

        /** Whether he who has asked has been told, or has left. */
        private final AtomicBoolean done = new AtomicBoolean();

        private long number;

        PendingCommand(Mono<T> command, MonoSink<T> sink) {
            this.command = command;
            this.sink = sink;
            sink.onCancel(() -> done.set(true));
        }

        @Override
        public void run() {
            if (done.get()) {
                return;
            }
            if (!connection.isOpen()) {
                fail(new LimitStoreUnavailableException(
                        "Redis is unavailable: the connection has just been lost", null));
                return;
            }
            number = countSent();
            if (held.isEmpty() && !turnstile.isWaitedFor()) {
                command.subscribe(this);
                failIfLost();
            } else {
                hold(this);
                command.subscribe(this);
            }
        }

        void failIfLost() {
            if (!connection.isOpen()) {
                fail(new RedisException("the connection was lost while the command was being sent"));
            }
        }

        @Override
        public Context currentContext() {
            return Context.of(sink.contextView());
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(T reply) {
            countAnswered(number);
            if (done.compareAndSet(false, true)) {
                sink.success(reply);
            }
        }

        @Override
        public void onComplete() {
            if (done.compareAndSet(false, true)) {
                sink.success();
            }
        }

        @Override
        public void onError(Throwable e) {
            if (e instanceof RedisCommandExecutionException) {
                countAnswered(number);
                noteRefusal(e.getMessage());
            }
            fail(e);
        }

        private void fail(Throwable e) {
            if (done.compareAndSet(false, true)) {
                sink.error(e);
            }
        }
    }
}
