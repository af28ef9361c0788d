package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Time;
import io.github.spillgate.redis.lane.AnswerDelivery;
import io.github.spillgate.redis.lane.Batch;
import io.github.spillgate.redis.lane.BatchBounds;
import io.github.spillgate.redis.lane.BatchQueue;
import io.github.spillgate.redis.lane.CommandSender;
import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.Lane;
import io.github.spillgate.redis.lane.LoopLanes;
import io.github.spillgate.redis.lane.OpenConnection;
import io.github.spillgate.redis.lane.PendingDecision;
import io.github.spillgate.redis.lane.Redirect;
import io.github.spillgate.redis.lane.ScriptRequest;
import io.github.spillgate.redis.lane.ScriptRequest.RefundMode;
import io.github.spillgate.redis.lane.WaitingDecisions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;

/** One Redis server: its lanes, and its scripts. */
final class Server implements LoopLanes.Target {

    /** The highest number of redirects of one command. A stable cluster needs at most one. */
    private static final int MOST_REDIRECTS = 5;

    /** Unique within the topology. */
    private final String name;

    /** Connects on the event loop of a client. May block. */
    private final Function<RedisClient, StatefulRedisConnection<byte[], byte[]>> connectOn;

    /** Has this server, and the targets of its redirects. */
    private final Topology topology;

    private final Settings settings;

    /** The lane for callers on any thread, and for everything except decisions. */
    private final Lane lane;

    private final Map<Script.Purpose, ScriptRunner> scripts = new EnumMap<>(Script.Purpose.class);

    private final WaitingDecisions waiting;

    /**
     * A server.
     *
     * @param connect connects on any event loop; may block
     */
    Server(
            String name,
            Supplier<StatefulRedisConnection<byte[], byte[]>> connect,
            Function<RedisClient, StatefulRedisConnection<byte[], byte[]>> connectOn,
            Topology topology,
            Settings settings) {
        this.name = name;
        this.connectOn = connectOn;
        this.topology = topology;
        this.settings = settings;
        settings.scripts().forEach((purpose, script) -> scripts.put(purpose, new ScriptRunner(script, Time::nanos)));
        this.waiting = new WaitingDecisions(settings.bounds(), settings.deliverOn());
        this.lane = newLane(connect, () -> AnswerDelivery.on(settings.deliverOn(), settings.emitsFew()));
    }

    String name() {
        return name;
    }

    Lane lane() {
        return lane;
    }

    ScriptRunner script(Script.Purpose purpose) {
        return Objects.requireNonNull(scripts.get(purpose));
    }

    /** Adds a decision to the queue of a connection, which sends it in a batch. */
    void enqueue(PendingDecision decision) {
        OpenConnection open = ifOpen();
        if (open != null) {
            open.queue().add(decision);
            return;
        }
        waiting.await(lane.opened(), decision, found -> found.queue().add(decision));
    }

    /**
     * Returns the connection on the caller's event loop, or until that is open, the one for callers on any thread; null
     * if neither is open. Begins to open what is not.
     */
    private @Nullable OpenConnection ifOpen() {
        Lane here = laneOfLoop();
        OpenConnection open = here == null ? null : here.ifUsableOnLoop();
        return open == null ? lane.ifOpen() : open;
    }

    /** Returns whether the caller's connection is open and Redis replies on it; does nothing if it does not. */
    boolean isResponsive() {
        Lane here = laneOfLoop();
        Lane used = here != null && here.hasBeenOpen() ? here : lane;
        return used.ifResponsive() != null;
    }

    /** Returns whether this server has replied on any lane to a command that was sent after this time. */
    boolean hasAnsweredSince(long time) {
        LoopLanes loops = settings.loops();
        return lane.hasAnsweredSince(time)
                || (loops != null && loops.anyMatch(this, other -> other.hasAnsweredSince(time)));
    }

    private @Nullable Lane laneOfLoop() {
        LoopLanes loops = settings.loops();
        return loops == null ? null : loops.current(this);
    }

    @Override
    public Lane newLane(Supplier<RedisClient> client) {
        return newLane(() -> connectOn.apply(client.get()), AnswerDelivery::onLoop);
    }

    private Lane newLane(Supplier<StatefulRedisConnection<byte[], byte[]>> connect, Supplier<AnswerDelivery> delivery) {
        return new Lane(
                connect,
                commands -> script(Script.Purpose.DECIDE)
                        .sendText(commands, topology.idleKeys(name), ScriptRequest.decideNothing()),
                Time::nanos,
                settings.longestSilence(),
                open -> new BatchQueue(
                        open,
                        batch -> decide(batch, open),
                        settings.keys(),
                        settings.bounds(),
                        delivery.get(),
                        this::hasAnsweredSince));
    }

    /** Sends a batch on one of the connections to this server, as a call of the script that decides. */
    Mono<byte[]> decide(Batch batch, OpenConnection open) {
        byte[][] names = batch.keys();
        return send(
                open,
                (server, sender) -> server.script(Script.Purpose.DECIDE).run(sender, names, batch::request),
                MOST_REDIRECTS);
    }

    /**
     * Sends a command to this server, and follows its redirects.
     *
     * @param command sends the command to a server, with this sender
     */
    <T> Mono<T> send(BiFunction<Server, CommandSender, Mono<T>> command) {
        return send(lane, command, MOST_REDIRECTS);
    }

    private <T> Mono<T> send(
            CommandSender sender, BiFunction<Server, CommandSender, Mono<T>> command, int redirectsLeft) {
        return command.apply(this, sender).onErrorResume(RedisCommandExecutionException.class, error -> {
            Redirect redirect = Redirect.parse(error);
            if (redirect == null) {
                if (Redirect.isClusterDown(error)) {
                    topology.noteClusterDown();
                }
                return Mono.error(error);
            }
            if (redirectsLeft == 0) {
                return Mono.error(new LimitStoreException(
                        Kind.UNAVAILABLE,
                        "Redis cannot decide: its nodes disagree on the owner of slot " + redirect.slot(),
                        error));
            }
            // Off the connection's thread, which has replies to read.
            return topology.redirect(redirect, this)
                    .switchIfEmpty(Mono.error(error))
                    .publishOn(Background.scheduler())
                    .flatMap(target -> target.send(
                            redirect.isMoved() ? target.lane : target.asking(), command, redirectsLeft - 1));
        });
    }

    /** Returns a sender to this node while it is importing a slot. */
    private CommandSender asking() {
        return new CommandSender() {
            @Override
            public <T> Mono<T> send(Command<T> command) {
                return lane.send((commands, clock) -> {
                    // Right before the command: no other thread writes between the two.
                    commands.asking().subscribe(ok -> {}, error -> {});
                    return command.on(commands, clock);
                });
            }
        };
    }

    /** Connects and loads the scripts that a request may need, with requests that change nothing. */
    Mono<Void> prepare() {
        return Mono.when(
                load(Script.Purpose.DECIDE, ScriptRequest.decideNothing()),
                load(Script.Purpose.REFUND, ScriptRequest.refund(RefundMode.OLDEST, List.of())),
                // Too late on any clock.
                load(Script.Purpose.RESET, ScriptRequest.reset(List.of(), 1)),
                load(Script.Purpose.RECONCILE, ScriptRequest.reconcile(List.of())),
                load(Script.Purpose.RENEW, ScriptRequest.release(List.of())));
    }

    /** Follows redirects: the owner of the slot of the key may have changed. */
    private Mono<byte[]> load(Script.Purpose script, byte[] request) {
        return send((server, sender) ->
                server.script(script).run(sender, topology.idleKeys(server.name), clock -> request));
    }

    /** Begins to close the connection; the result completes once it is closed. */
    CompletableFuture<Void> beginClosing() {
        return lane.beginClosing();
    }

    /** Closes the connections, because this server owns no slot any more. Waiting decisions fail without a charge. */
    void closeWithoutSlots() {
        // First, because a loop that adds a lane looks at it afterwards.
        OpenConnection.unobserved(lane.beginClosing(this::ownsNoSlot));
        LoopLanes loops = settings.loops();
        if (loops != null) {
            loops.close(this, this::ownsNoSlot);
        }
    }

    private LimitStoreException ownsNoSlot() {
        return new LimitStoreException(
                Kind.UNAVAILABLE, "Redis cannot decide: " + name + " no longer owns a slot of the cluster");
    }

    @Override
    public @Nullable Supplier<LimitStoreException> whyClosed() {
        return lane.whyClosed();
    }

    @Override
    public String toString() {
        return name;
    }

    /**
     * The settings that all servers of one store share.
     *
     * @param keys the keys of the counts
     * @param scripts the scripts
     * @param bounds the bounds of batches
     * @param deliverOn emits the decisions of callers that are on no event loop with a lane
     * @param emitsFew whether the thread that reads from Redis may emit a few of them itself
     * @param loops the lanes on the event loops of callers; null if there are none
     * @param eviction the eviction policies of the servers
     * @param longestSilence how long commands may be in flight on a connection without any reply
     */
    record Settings(
            CountKeys keys,
            Map<Script.Purpose, Script> scripts,
            BatchBounds bounds,
            Scheduler deliverOn,
            boolean emitsFew,
            @Nullable LoopLanes loops,
            EvictionPolicy eviction,
            Duration longestSilence) {}
}
