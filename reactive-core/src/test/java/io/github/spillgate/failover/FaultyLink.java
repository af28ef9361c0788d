package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.redis.CombinedDecision;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.CorrectedForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/** The connection of one instance to a store that all of them share, in virtual time: it stalls, is late, or fails. */
final class FaultyLink implements LimitStore {

    private static final List<Mode> MODES = List.of(Mode.values());

    private final LimitStore remote;
    private final Observer observer;
    private final List<Runnable> stalled = new ArrayList<>();
    private Mode mode = Mode.UP;
    private IntSupplier delays = () -> 1;
    private IntSupplier pauses = () -> 0;

    /** How the connection behaves. */
    enum Mode {
        /** Executes requests and replies at once. */
        UP,

        /** Executes requests at once, and replies later, in any order. */
        LATE,

        /** Executes requests when the stall ends, those after their deadline not at all, and replies then. */
        STALLED,

        /** Executes requests, and never replies. */
        LOSES_REPLIES,

        /** Executes nothing, and reports an error. */
        DOWN,

        /** Executes everything but resets, which it refuses. */
        REFUSES_RESETS
    }

    FaultyLink(LimitStore remote, Observer observer) {
        this.remote = remote;
        this.observer = observer;
    }

    /** Changes how the connection behaves. What has stalled stays so until {@link #up()}. */
    void mode(Mode changed) {
        mode = changed;
    }

    Mode mode() {
        return mode;
    }

    /** Sets by how much replies are late. */
    void delay(int millis) {
        delays = () -> millis;
    }

    /** From now on other requests overtake refunds. */
    void pauseBeforeChanges(Random random, int mostMillis) {
        pauses = () -> random.nextInt(mostMillis + 1);
    }

    /** Behaves in another way, at random. */
    void change(Random random) {
        up();
        mode = MODES.get(random.nextInt(MODES.size()));
        delays = () -> 1 + random.nextInt(250);
    }

    /** Works again, and executes the requests that have stalled. */
    void up() {
        mode = Mode.UP;
        List<Runnable> now = List.copyOf(stalled);
        stalled.clear();
        now.forEach(Runnable::run);
    }

    /** Works no more, and never executes what has stalled. */
    void cut() {
        mode = Mode.DOWN;
        stalled.clear();
    }

    @Override
    public Mono<Void> prepare(String node) {
        return Mono.defer(() -> mode == Mode.DOWN ? ask(Mono::empty) : Mono.empty());
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        Supplier<Mono<StoreDecision>> inTime = () -> Time.nanos() > request.deadline()
                ? Mono.error(new LimitStoreException(Kind.LATE, "late"))
                : remote.take(request);
        return switch (request.mode()) {
            case PEEK -> observed(Call.Action.PEEK, request.claims(), () -> remote.take(request), reply -> reply);
            case TAKE -> observed(Call.Action.TAKE, request.claims(), inTime, reply -> reply);
            case LEASE -> observed(Call.Action.LEASE, request.claims().get(0), inTime, reply -> reply);
        };
    }

    /** Makes corrections of one kind. */
    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        Correction first = corrections.get(0);
        Supplier<Mono<List<Corrected>>> execute = () -> remote.correct(corrections);
        if (first instanceof Reconciliation) {
            return observed(Call.Action.RECONCILE, corrections, execute, FaultyLink::asDecision);
        } else if (first instanceof Settlement) {
            return observed(Call.Action.SETTLE, corrections, execute, FaultyLink::asDecision);
        }
        List<Refund> refunds = corrections.stream()
                .filter(Refund.class::isInstance)
                .map(Refund.class::cast)
                .toList();
        return later(Mono.defer(() -> {
            if (mode == Mode.DOWN) {
                refunds.forEach(observer::refundLost);
            }
            return ask(() -> execute.get().doOnNext(done -> refunds.forEach(observer::refunded)));
        }));
    }

    /** Returns the replies to corrections as a decision with a part for each. */
    private static StoreDecision asDecision(List<Corrected> results) {
        List<StoreDecision> replies =
                results.stream().map(CorrectedForTests::asDecision).toList();
        List<Claim> claims =
                replies.stream().flatMap(reply -> reply.claims().stream()).toList();
        return replies.size() == 1 ? replies.get(0) : CombinedDecision.of(claims, replies);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        if (mode == Mode.REFUSES_RESETS) {
            return Mono.error(new LimitStoreException(Kind.REFUSED, "no permission"));
        }
        return ask(() -> Time.nanos() > deadline
                ? Mono.error(new LimitStoreException(Kind.LATE, "late"))
                : remote.reset(claims, NO_DEADLINE));
    }

    @Override
    public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        return ask(() -> remote.exchange(request))
                .doOnNext(reply -> reply.instances().forEach(observer::registered));
    }

    /** Sends a request after a pause: the thread was suspended before. */
    private <T> Mono<T> later(Mono<T> request) {
        return Mono.defer(() -> {
            int pause = pauses.getAsInt();
            return pause == 0 ? request : request.delaySubscription(Duration.ofMillis(pause), Schedulers.parallel());
        });
    }

    private <T> Mono<T> observed(
            Call.Action action, Object request, Supplier<Mono<T>> execute, Function<T, StoreDecision> asDecision) {
        return Mono.deferContextual(context -> {
            Call call = new Call(action, request, context, Schedulers.parallel().now(TimeUnit.MILLISECONDS));
            observer.sent(call);
            Mono<T> asked =
                    ask(() -> execute.get().doOnNext(reply -> observer.executed(call, asDecision.apply(reply))));
            return asked.doOnNext(reply -> observer.replied(call, asDecision.apply(reply)));
        });
    }

    private <T> Mono<T> ask(Supplier<Mono<T>> request) {
        return Mono.defer(() -> switch (mode) {
            case UP, REFUSES_RESETS -> request.get();
            case LATE ->
                executed(request).delaySubscription(Duration.ofMillis(delays.getAsInt()), Schedulers.parallel());
            case STALLED ->
                Mono.<T>create(
                        sink -> stalled.add(() -> request.get().subscribe(sink::success, sink::error, sink::success)));
            case LOSES_REPLIES -> {
                executed(request);
                yield Mono.error(new LimitStoreException(Kind.UNANSWERED, "the reply was lost"));
            }
            case DOWN -> Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "the connection is down"));
        });
    }

    private static <T> Mono<T> executed(Supplier<Mono<T>> request) {
        Mono<T> reply = request.get().cache();
        reply.subscribe(done -> {}, error -> {});
        return reply;
    }

    @Override
    public String toString() {
        return "Link";
    }

    /** Learns of the requests that are answered by a decision, and of registrations. */
    interface Observer {

        /** The instance sends a request. */
        default void sent(Call call) {}

        /** The store executes it. */
        default void executed(Call call, StoreDecision reply) {}

        /** The instance gets the reply. */
        default void replied(Call call, StoreDecision reply) {}

        /** The store executes a refund. */
        default void refunded(Refund refund) {}

        /** The store does not execute this refund. */
        default void refundLost(Refund refund) {}

        /** The instance learns how many instances there are. */
        default void registered(int instances) {}
    }

    /**
     * One request to the store.
     *
     * @param action what is asked for
     * @param request the claims, the claim to lease, the reconciliations or the settlements
     * @param context the context of the subscriber
     * @param sentAt when it was sent
     */
    record Call(Action action, Object request, ContextView context, long sentAt) {

        enum Action {
            TAKE,
            LEASE,
            PEEK,
            RECONCILE,
            SETTLE
        }

        Call {
            context = Context.of(context);
        }

        /** Returns what the call reconciles; nothing if it does something else. */
        @SuppressWarnings("unchecked") // by its action
        List<Reconciliation> reconciliations() {
            return action == Action.RECONCILE ? (List<Reconciliation>) request : List.of();
        }
    }
}
