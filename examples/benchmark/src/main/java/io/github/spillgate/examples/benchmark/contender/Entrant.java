package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.Limit;
import java.util.function.Function;

/** The contenders, by their names in the results. */
public enum Entrant {
    /** No limiter: one empty round trip to Redis, the minimum for a limiter with a round trip for each decision. */
    PING("ping", Side.FLOOR, PingEach::new),
    EVALSHA("evalsha each", Side.PEER, EvalshaEach::alone),
    BUCKET4J("bucket4j", Side.PEER, Bucket4j::unbatched),
    BUCKET4J_BATCHING("bucket4j batching", Side.PEER, Bucket4j::batching),
    REDISSON("redisson", Side.PEER, RedissonLimiter::new),
    SPRING_GATEWAY("spring gateway", Side.PEER, SpringGateway::new),
    LOG("spillgate log", Side.OURS, setting -> Spillgate.inRedis(setting, Entrant::log)),
    COUNTER("spillgate counter", Side.OURS, setting -> Spillgate.inRedis(setting, Entrant::counter)),
    LEASED(
            "spillgate log leased",
            Side.OURS,
            setting -> Spillgate.inRedis(setting, rate -> log(rate).leased())),
    BUCKET("spillgate bucket", Side.OURS, setting -> Spillgate.inRedis(setting, Entrant::bucket)),

    /** On one event loop, as a request of a server: as many thread switches as with EVALSHA, which are none. */
    LOG_ON_LOOP(
            "spillgate log loop",
            Side.OURS,
            setting -> OnEventLoop.open(setting, on -> Spillgate.atAddress(on, Entrant::log))),
    COUNTER_ON_LOOP(
            "spillgate counter loop",
            Side.OURS,
            setting -> OnEventLoop.open(setting, on -> Spillgate.atAddress(on, Entrant::counter))),

    EVALSHA_IN_ONE("evalsha each cluster-1", Side.PEER, Topology.CLUSTER_OF_ONE, EvalshaEach::inCluster),
    EVALSHA_IN_THREE("evalsha each cluster-3", Side.PEER, Topology.CLUSTER_OF_THREE, EvalshaEach::inCluster),
    LOG_IN_ONE(
            "spillgate log cluster-1",
            Side.OURS,
            Topology.CLUSTER_OF_ONE,
            setting -> Spillgate.inCluster(setting, Entrant::log)),
    LOG_IN_THREE(
            "spillgate log cluster-3",
            Side.OURS,
            Topology.CLUSTER_OF_THREE,
            setting -> Spillgate.inCluster(setting, Entrant::log)),
    COUNTER_IN_ONE(
            "spillgate counter cluster-1",
            Side.OURS,
            Topology.CLUSTER_OF_ONE,
            setting -> Spillgate.inCluster(setting, Entrant::counter)),
    COUNTER_IN_THREE(
            "spillgate counter cluster-3",
            Side.OURS,
            Topology.CLUSTER_OF_THREE,
            setting -> Spillgate.inCluster(setting, Entrant::counter)),

    COUNTER_GROUPED_IN_THREE(
            "spillgate counter cluster-3 grouped",
            Side.OURS,
            Topology.CLUSTER_OF_THREE,
            setting -> Spillgate.groupedInCluster(setting, Entrant::counter)),

    BUCKET4J_JDBC("bucket4j jdbc", Side.PEER, Topology.POSTGRES, Bucket4jJdbc::new),
    LOCKING("locking statements", Side.PEER, Topology.POSTGRES, LockingStatements::new),
    LOG_IN_POSTGRES(
            "spillgate log postgres",
            Side.OURS,
            Topology.POSTGRES,
            setting -> Spillgate.inPostgres(setting, Entrant::log)),
    COUNTER_IN_POSTGRES(
            "spillgate counter postgres",
            Side.OURS,
            Topology.POSTGRES,
            setting -> Spillgate.inPostgres(setting, Entrant::counter)),

    LOCAL_BUCKET4J("bucket4j local", Side.PEER, Bucket4jLocal::new),
    LOCAL_RESILIENCE4J("resilience4j", Side.PEER, Resilience4j::new),
    LOCAL_LOG("spillgate local log", Side.OURS, setting -> Spillgate.local(setting, Entrant::log)),
    LOCAL_COUNTER("spillgate local counter", Side.OURS, setting -> Spillgate.local(setting, Entrant::counter));

    private enum Side {
        OURS,
        PEER,
        FLOOR
    }

    private final String title;
    private final Side side;
    private final Topology topology;

    @SuppressWarnings("ImmutableEnumChecker") // all of them are functions that hold nothing
    private final Function<Setting, Contender> open;

    Entrant(String title, Side side, Function<Setting, Contender> open) {
        this(title, side, Topology.ALONE, open);
    }

    Entrant(String title, Side side, Topology topology, Function<Setting, Contender> open) {
        this.title = title;
        this.side = side;
        this.topology = topology;
        this.open = open;
    }

    public String title() {
        return title;
    }

    public Topology topology() {
        return topology;
    }

    public boolean isOurs() {
        return side == Side.OURS;
    }

    public boolean isPeer() {
        return side == Side.PEER;
    }

    /** Returns whether this contender is a limiter. */
    public boolean isLimiter() {
        return side != Side.FLOOR;
    }

    public Contender open(Setting setting) {
        return open.apply(setting);
    }

    private static Limit log(Rate rate) {
        return Limit.of(rate.permits(), rate.window());
    }

    private static Limit bucket(Rate rate) {
        return log(rate).burst(rate.permits());
    }

    private static Limit counter(Rate rate) {
        return Limit.counter(rate.permits(), rate.window());
    }
}
