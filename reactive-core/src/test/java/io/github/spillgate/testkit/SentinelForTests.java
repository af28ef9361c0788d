package io.github.spillgate.testkit;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.RedisProcess.Leftovers;
import io.github.spillgate.testkit.RedisProcess.Listening;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.awaitility.core.ConditionFactory;

/**
 * A primary, its replicas, and three Sentinels that watch them, for tests: processes of the same {@code redis-server}
 * as elsewhere.
 *
 * <p>From {@link #allowFailover()} on, a primary that does not answer for {@value #DOWN_MILLIS} ms is down. A replica
 * replaces it about 1 s after that, or 2 s with a Redis before 7.0: its Sentinels have fixed periods. Before, a primary
 * may not answer for as long as a busy machine likes.
 */
public final class SentinelForTests implements AutoCloseable {

    private static final String NAME = "primary";
    private static final int SENTINELS = 3;
    private static final int QUORUM = 2;
    private static final int DOWN_MILLIS = 1_000;
    private static final int NEVER_MILLIS = 3_600_000;

    /** Where a vote is split, twice as long passes before the next. */
    private static final int FAILOVER_MILLIS = 5_000;

    /**
     * How often Sentinels ask for INFO, publish what they know, and ask each other; the defaults are 10, 2 and 1 s.
     * While its primary is down, a replica reports once a second, whatever is set, and Sentinel ignores reports older
     * than three INFO periods.
     */
    private static final List<String> SHORT_PERIODS =
            List.of("INFO-PERIOD", "1500", "PUBLISH-PERIOD", "200", "ASK-PERIOD", "200");

    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(10);

    private final RedisClient client = RedisNode.client();
    private final List<RedisNode> servers = new ArrayList<>();
    private final List<RedisNode> sentinels = new ArrayList<>();
    private final List<Path> directories = new ArrayList<>();

    private SentinelForTests() {}

    /** Starts them, and waits until the Sentinels know each other and the replicas. */
    public static SentinelForTests start(RedisBinary binary, int replicas) {
        SentinelForTests sentinel = new SentinelForTests();
        try {
            sentinel.launchServers(binary, replicas);
            sentinel.launchSentinels(binary, replicas);
            return sentinel;
        } catch (RuntimeException e) {
            sentinel.close();
            throw e;
        }
    }

    private void launchServers(RedisBinary binary, int replicas) {
        for (int i = 0; i <= replicas; i++) {
            RedisProcess process = RedisProcess.start(
                    binary.path(),
                    Listening.PLAINLY,
                    RedisProcess::freePort,
                    List.of("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"));
            servers.add(new RedisNode(process, client));
        }
        RedisNode primary = servers.get(0);
        for (RedisNode replica : servers.subList(1, servers.size())) {
            replica.commands().replicaof("127.0.0.1", primary.port());
        }
        awaitAllFollow(primary);
    }

    private void launchSentinels(RedisBinary binary, int replicas) {
        for (int i = 0; i < SENTINELS; i++) {
            List<String> arguments = List.of(writeSettings(replicas).toString(), "--sentinel");
            RedisProcess process =
                    RedisProcess.start(binary.path(), Listening.PLAINLY, RedisProcess::freePort, arguments);
            RedisNode sentinel = new RedisNode(process, client);
            sentinels.add(sentinel);
            shortenPeriods(sentinel);
        }
        waiting("all Sentinels know all")
                .until(() -> runningSentinels().stream().allMatch(this::knowsAll));
    }

    /** Writes the file that a Sentinel is started with, in which it keeps what it finds out. */
    private Path writeSettings(int replicas) {
        Path directory = Leftovers.newDirectory("sentinel");
        directories.add(directory);
        String settings = """
            sentinel monitor %1$s 127.0.0.1 %2$d %3$d
            sentinel down-after-milliseconds %1$s %4$d
            sentinel failover-timeout %1$s %5$d
            sentinel parallel-syncs %1$s %6$d
            """.formatted(NAME, servers.get(0).port(), QUORUM, NEVER_MILLIS, FAILOVER_MILLIS, replicas);
        try {
            return Files.writeString(directory.resolve("sentinel.conf"), settings);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void shortenPeriods(RedisNode sentinel) {
        setPeriods(sentinel, SHORT_PERIODS);
    }

    private static void setPeriods(RedisNode sentinel, List<String> periods) {
        List<String> arguments = new ArrayList<>(List.of("DEBUG"));
        arguments.addAll(periods);
        try {
            tell(sentinel, arguments.toArray(String[]::new));
        } catch (RedisCommandExecutionException beforeRedis7) {
            // SENTINEL DEBUG came with Redis 7.0. Without it everything takes longer, and nothing else changes.
        }
    }

    /**
     * Where a client asks for the primary: all Sentinels, and the name that they know it by; with a timeout of 2 s, for
     * each of them as well.
     */
    public RedisURI uri() {
        RedisURI.Builder builder = RedisURI.builder().withSentinelMasterId(NAME).withTimeout(Duration.ofSeconds(2));
        sentinels.forEach(one -> builder.withSentinel("127.0.0.1", one.port()));
        return builder.build();
    }

    /** The primary and its replicas; the one that began as primary first. */
    public List<RedisNode> servers() {
        return List.copyOf(servers);
    }

    public List<RedisNode> sentinels() {
        return List.copyOf(sentinels);
    }

    /** The primary, as a Sentinel says that runs. */
    public RedisNode primary() {
        return primaryAsSaidBy(runningSentinels().get(0));
    }

    private RedisNode primaryAsSaidBy(RedisNode sentinel) {
        List<Object> address = ask(sentinel, "GET-MASTER-ADDR-BY-NAME", NAME);
        int port = Integer.parseInt(address.get(1).toString());
        return servers.stream()
                .filter(server -> server.port() == port)
                .findFirst()
                .orElseThrow(() -> new IllegalStateException(
                        sentinel + " says that the primary is on port " + port + ": expected one of " + servers));
    }

    /** Keeps the Sentinels from taking a primary for down, as at the start, until {@link #allowFailover()}. */
    public void holdFailover() {
        setDownAfter(NEVER_MILLIS);
    }

    public void allowFailover() {
        setDownAfter(DOWN_MILLIS);
    }

    private void setDownAfter(int millis) {
        runningSentinels().forEach(one -> tell(one, "SET", NAME, "down-after-milliseconds", Integer.toString(millis)));
    }

    /** Has a replica take the primary's place, though nothing is wrong with that. */
    public void failover() {
        tell(runningSentinels().get(0), "FAILOVER", NAME);
    }

    /**
     * Keeps the Sentinels from making a server a replica again that the test promotes, until {@link #monitor}. With a
     * Redis before 7.0 they do so after 8 s. They wait for four of the periods in which they publish.
     */
    public void holdRoles() {
        runningSentinels().forEach(one -> setPeriods(one, List.of("PUBLISH-PERIOD", Integer.toString(NEVER_MILLIS))));
    }

    /** Tells the Sentinels by hand that this server is the primary, whatever they have known. */
    public void monitor(RedisNode primary) {
        for (RedisNode one : runningSentinels()) {
            tell(one, "REMOVE", NAME);
            tell(one, "MONITOR", NAME, "127.0.0.1", Integer.toString(primary.port()), Integer.toString(QUORUM));
            shortenPeriods(one);
        }
    }

    /** Waits until all Sentinels name another primary than this one, and that one, if it runs, knows it. */
    public RedisNode awaitNewPrimary(RedisNode old) {
        waiting("another primary than " + old)
                .until(() -> runningSentinels().stream().allMatch(one -> primaryAsSaidBy(one) != old)
                        && (!old.isRunning() || !old.isPrimary()));
        return primary();
    }

    /** Waits until all servers that run are replicas of this one, and have its data. */
    public void awaitAllFollow(RedisNode primary) {
        waiting("all follow " + primary)
                .until(() -> servers.stream()
                        .filter(server -> server != primary && server.isRunning())
                        .allMatch(server -> follows(server, primary)));
    }

    private static boolean follows(RedisNode replica, RedisNode primary) {
        List<Object> role = replica.commands().role();
        return role.get(0).equals("slave")
                && role.get(2).equals((long) primary.port())
                && role.get(3).equals("connected");
    }

    /** Returns whether a Sentinel knows the others and all replicas, and finds nothing wrong with any. */
    private boolean knowsAll(RedisNode sentinel) {
        Map<String, String> master = fields(ask(sentinel, "MASTER", NAME));
        return "master".equals(master.get("flags"))
                && Integer.toString(SENTINELS - 1).equals(master.get("num-other-sentinels"))
                && Integer.toString(servers.size() - 1).equals(master.get("num-slaves"))
                && ask(sentinel, "SLAVES", NAME).stream()
                        .map(SentinelForTests::fields)
                        .allMatch(slave ->
                                "slave".equals(slave.get("flags")) && "ok".equals(slave.get("master-link-status")));
    }

    private static Map<String, String> fields(Object reply) {
        List<?> list = (List<?>) reply;
        Map<String, String> fields = new TreeMap<>();
        for (int i = 0; i + 1 < list.size(); i += 2) {
            fields.put(list.get(i).toString(), list.get(i + 1).toString());
        }
        return fields;
    }

    private List<RedisNode> runningSentinels() {
        return sentinels.stream().filter(RedisNode::isRunning).toList();
    }

    private static List<Object> ask(RedisNode sentinel, String... arguments) {
        return sentinel.commands()
                .dispatch(CommandType.SENTINEL, new ArrayOutput<>(StringCodec.UTF8), arguments(arguments));
    }

    private static void tell(RedisNode sentinel, String... arguments) {
        sentinel.commands().dispatch(CommandType.SENTINEL, new StatusOutput<>(StringCodec.UTF8), arguments(arguments));
    }

    private static CommandArgs<String, String> arguments(String... arguments) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        for (String argument : arguments) {
            args.add(argument);
        }
        return args;
    }

    private static ConditionFactory waiting(String what) {
        // Sentinel hangs up on all clients of a server that it makes a replica, on the test as well.
        return await(what)
                .atMost(PATIENCE)
                .pollDelay(Duration.ZERO)
                .pollInterval(POLL)
                .ignoreExceptionsInstanceOf(RedisException.class);
    }

    @Override
    public void close() {
        sentinels.forEach(RedisNode::close);
        servers.forEach(RedisNode::close);
        directories.forEach(Leftovers::delete);
        client.shutdown(0, 2, TimeUnit.SECONDS);
    }

    @Override
    public String toString() {
        return servers + " watched by " + sentinels;
    }
}
