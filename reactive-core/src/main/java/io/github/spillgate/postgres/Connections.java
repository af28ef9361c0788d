package io.github.spillgate.postgres;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Background;
import io.r2dbc.postgresql.api.PostgresqlConnection;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ValidationDepth;
import io.r2dbc.spi.Wrapped;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** The connections of a store, each of which executes one statement at a time. */
final class Connections {
    // Design notes.
    //
    // A statement takes a place, opens its connection if there is none, and gives the place back when it ends. If
    // all are taken it waits, in order. A connection on which a statement failed, or was given up after its timeout, is
    // closed: its state is not known. The server is asked to cancel the statement: while that waits for a lock, the
    // server does not notice that the connection is closed, and would still count it.
    //
    // An attempt to connect is not cancelled, because the driver would then keep the socket. It goes on after the
    // timeout of its statement, and the next statement of that place uses it. After a minute it is given up, and
    // closed if it succeeds later.
    //
    // When a process that was stopped continues, all its timers are due. So a timeout has parts, each of which begins
    // when the one before has ended: there is time to read the replies that have arrived.

    private static final int PARTS = 4;

    private static final Duration LONGEST_ATTEMPT = Duration.ofMinutes(1);

    private final Mono<Connection> open;
    private final Duration timeout;
    private final List<ConnectionPlace> places = new ArrayList<>();
    private final Deque<ConnectionPlace> free = new ConcurrentLinkedDeque<>();
    private final Queue<PlaceWaiter> waiters = new ConcurrentLinkedQueue<>();
    private final AtomicInteger passes = new AtomicInteger();
    private volatile boolean isClosed;

    /**
     * Creates the connections; none is opened yet.
     *
     * @param most their number
     * @param open opens one
     * @param timeout the longest time for a statement
     */
    Connections(int most, Mono<Connection> open, Duration timeout) {
        this.open = open;
        this.timeout = timeout;
        for (int i = 0; i < most; i++) {
            places.add(new ConnectionPlace());
        }
        free.addAll(places);
    }

    /** Returns a Mono that executes a statement on a connection, within the timeout. */
    <T> Mono<T> run(Function<Connection, Mono<T>> statement) {
        return Mono.usingWhen(freePlace(), place -> place.run(statement), this::giveBack)
                .timeout(Mono.delay(timeout.dividedBy(PARTS), Background.scheduler())
                        .repeat(PARTS - 1)
                        .then());
    }

    private Publisher<ConnectionPlace> freePlace() {
        return subscriber -> subscriber.onSubscribe(new PlaceWaiter(subscriber));
    }

    private Mono<Void> giveBack(ConnectionPlace place) {
        // First, so that a store with little to do keeps to one connection.
        free.addFirst(place);
        serve();
        return Mono.empty();
    }

    /** Gives free places to waiters, on one thread at a time. */
    private void serve() {
        if (passes.getAndIncrement() != 0) {
            return;
        }
        int known;
        do {
            known = passes.get();
            ConnectionPlace place = free.poll();
            while (place != null) {
                PlaceWaiter waiter = waiters.poll();
                if (waiter == null) {
                    free.addFirst(place);
                    break;
                }
                place = waiter.take(place) ? free.poll() : place;
            }
        } while (passes.addAndGet(-known) != 0);
    }

    /**
     * Returns a Mono that closes all connections. It never fails, and does not wait for those that are just being
     * opened: they are closed as soon as they are open.
     */
    Mono<Void> close() {
        return Mono.defer(() -> {
            isClosed = true;
            return Flux.fromIterable(places).flatMap(ConnectionPlace::close).then();
        });
    }

    private final class ConnectionPlace {

        /** The connection, or the attempt to open it; null if there is none, or it has failed. */
        private volatile Sinks.@Nullable One<Connection> connection;

        <T> Mono<T> run(Function<Connection, Mono<T>> statement) {
            return connected().flatMap(open -> {
                AtomicBoolean isDone = new AtomicBoolean();
                return statement
                        .apply(open)
                        .doOnSuccess(result -> isDone.set(true))
                        .doOnError(error -> replace(open, isDone))
                        .doOnCancel(() -> replace(open, isDone));
            });
        }

        /** Closes the connection of a statement that has not succeeded, before the place is given back. */
        private void replace(Connection open, AtomicBoolean isDone) {
            if (isDone.compareAndSet(false, true)) {
                connection = null;
                cancel(open);
                discard(open);
            }
        }

        private Mono<Connection> connected() {
            Sinks.One<Connection> known = connection;
            return known == null
                    ? opened()
                    : known.asMono()
                            .filterWhen(open -> Mono.from(open.validate(ValidationDepth.LOCAL)))
                            .switchIfEmpty(Mono.defer(this::opened));
        }

        private Mono<Connection> opened() {
            Sinks.One<Connection> opening = Sinks.one();
            connection = opening;
            // After the assignment: either this sees that the store is closed, or close() sees the attempt.
            if (isClosed) {
                opening.tryEmitError(closed());
                return opening.asMono();
            }
            AtomicBoolean isDecided = new AtomicBoolean();
            Consumer<Throwable> fail = error -> {
                if (isDecided.compareAndSet(false, true)) {
                    connection = null;
                    opening.tryEmitError(error);
                }
            };
            open.subscribe(
                    opened -> {
                        if (!isDecided.compareAndSet(false, true)
                                || opening.tryEmitValue(opened).isFailure()) {
                            discard(opened);
                        }
                    },
                    fail);
            Background.scheduler()
                    .schedule(
                            () -> fail.accept(new TimeoutException()),
                            LONGEST_ATTEMPT.toMillis(),
                            TimeUnit.MILLISECONDS);
            return opening.asMono();
        }

        Mono<Void> close() {
            Sinks.One<Connection> known = connection;
            if (known == null) {
                return Mono.empty();
            }
            // Ends an attempt that goes on; has no effect on an open connection.
            known.tryEmitError(closed());
            return known.asMono().flatMap(Connections::closing).onErrorComplete();
        }
    }

    private static LimitStoreException closed() {
        return new LimitStoreException(Kind.UNAVAILABLE, "the store is closed: expected an open one");
    }

    /** Ends a statement that waits in the server, which would not notice that its connection is closed. */
    private void cancel(Connection open) {
        Object connection = open;
        while (connection instanceof Wrapped<?> wrapped && !(connection instanceof PostgresqlConnection)) {
            connection = wrapped.unwrap();
        }
        if (connection instanceof PostgresqlConnection known) {
            known.cancelRequest().timeout(timeout, Background.scheduler()).subscribe(null, error -> {});
        }
    }

    static void discard(Connection open) {
        closing(open).subscribe(null, error -> {});
    }

    /**
     * Returns a Mono that closes a connection on a thread that may wait. The driver waits, in a loop, until no thread
     * passes messages on to subscribers. If that is the thread which closes, as a subscriber, it never ends.
     */
    private static Mono<Void> closing(Connection open) {
        return Mono.defer(() -> Mono.from(open.close())).subscribeOn(Schedulers.boundedElastic());
    }

    /** The subscription of a statement that waits for a place. */
    private final class PlaceWaiter implements Subscription {

        private final Subscriber<? super ConnectionPlace> subscriber;
        private final AtomicBoolean isRequested = new AtomicBoolean();
        private final AtomicBoolean isDone = new AtomicBoolean();

        PlaceWaiter(Subscriber<? super ConnectionPlace> subscriber) {
            this.subscriber = subscriber;
        }

        @Override
        public void request(long n) {
            if (Operators.validate(n) && isRequested.compareAndSet(false, true)) {
                waiters.add(this);
                serve();
            }
        }

        @Override
        public void cancel() {
            isDone.set(true);
        }

        /** Returns whether the place is taken. */
        boolean take(ConnectionPlace place) {
            if (!isDone.compareAndSet(false, true)) {
                return false;
            }
            subscriber.onNext(place);
            subscriber.onComplete();
            return true;
        }
    }
}
