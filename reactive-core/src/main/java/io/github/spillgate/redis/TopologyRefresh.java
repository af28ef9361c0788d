package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Time;
import io.github.spillgate.redis.lane.Errors;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * Finds the owners of all hash slots of a cluster. Asks a few known nodes first, then the nodes in the settings or, if
 * there are none, the caller's client. Concurrent callers share one attempt.
 */
final class TopologyRefresh {
    // Design notes.
    //
    // Every attempt ends: a node that does not reply is skipped after a second, and the number of nodes is bounded. If
    // the caller's client takes too long, the next caller abandons the attempt and begins another one. An attempt is
    // replaced by a compare-and-set, so there is one at a time. At most one begins per second, and callers in between
    // use the newest.
    //
    // A result counts however late it is, even that of an abandoned attempt. It may be outdated by then, like
    // everything that is known of a cluster; redirects correct it.
    //
    // Only the newest attempt is kept here. The cluster keeps the nodes and the owners.

    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(1);

    /** The number of known nodes that are asked, one after another, before those in the settings or the client. */
    private static final int MOST_ASKED = 3;

    /**
     * The time after which the next caller abandons an attempt: a client waits up to a minute for a node that hangs,
     * though other nodes may reply by then. Each call of the client holds a thread, so there are few.
     */
    private static final long LONGEST_ATTEMPT = TimeUnit.SECONDS.toNanos(5);

    private static final int MOST_CLIENTS_ASKED = 2;

    private final RedisClusterClient client;

    /** The nodes to ask if no known node replies; if there are none, the client is asked. */
    private final List<RedisURI> seeds;

    private final Cluster cluster;
    private final AtomicReference<@Nullable Attempt> newest = new AtomicReference<>();

    /** The number of threads that wait for the caller's client. */
    private final AtomicInteger clientsAsked = new AtomicInteger();

    /** Whether the client has returned nodes before; after that it must be told to look again. */
    private volatile boolean clientHasNodes;

    TopologyRefresh(RedisClusterClient client, List<RedisURI> seeds, Cluster cluster) {
        this.client = client;
        this.seeds = seeds;
        this.cluster = cluster;
    }

    /** Starts a refresh, or joins one that is running or has just ended; completes when the owners are updated. */
    Mono<Void> start() {
        while (true) {
            Attempt known = newest.get();
            if (known != null && !known.isOld()) {
                return known.awaited;
            }
            Attempt next = new Attempt();
            if (newest.compareAndSet(known, next)) {
                next.start();
                if (known != null) {
                    // On another thread, because all callers that wait for it fail there.
                    Background.scheduler().schedule(known::abandon);
                }
                return next.awaited;
            }
        }
    }

    /** The owner of the hash slots from a first to a last one. */
    record SlotRange(int from, int to, String host, int port) {}

    /** One attempt to find the owners. */
    private final class Attempt {

        private final CompletableFuture<@Nullable Void> outcome = new CompletableFuture<>();

        /** Cached, because an error would otherwise reach cancelled subscribers too. */
        private final Mono<Void> awaited = Mono.fromFuture(outcome, true).cache();

        private final long since = Time.nanos();
        private volatile long endedAt;
        private volatile @Nullable Throwable lastError;

        boolean isOld() {
            return outcome.isDone() ? Time.nanos() - endedAt > PAUSE : Time.nanos() - since > LONGEST_ATTEMPT;
        }

        /** Fails the callers that wait, because another attempt has begun. Its result is used all the same. */
        void abandon() {
            if (!outcome.isDone()) {
                end(noSlots("no node reported", Duration.ofNanos(LONGEST_ATTEMPT)));
            }
        }

        private static LimitStoreException noSlots(String subject, Duration waited) {
            return new LimitStoreException(
                    Kind.UNREACHABLE,
                    "Redis is unavailable: " + subject + " the slots of the cluster within " + waited.toSeconds()
                            + " s");
        }

        void start() {
            List<Server> all = new ArrayList<>(cluster.servers());
            Collections.shuffle(all);
            // Responsive nodes first; but others may be back, without a request that has shown it.
            List<Server> silent = new ArrayList<>(all);
            silent.removeIf(server -> server.lane().ifResponsive() != null);
            all.removeAll(silent);
            all.addAll(silent);
            List<Server> some;
            try {
                some = Stream.concat(
                                all.stream().limit(MOST_ASKED),
                                seeds.stream().map(seed -> cluster.serverAt(seed.getHost(), seed.getPort())))
                        .distinct()
                        .toList();
            } catch (RuntimeException e) {
                // The store is closed.
                end(e);
                return;
            }
            askNext(some.iterator());
        }

        private void askNext(Iterator<Server> some) {
            if (!some.hasNext() && !seeds.isEmpty()) {
                end(lastError);
                return;
            }
            if (!some.hasNext()) {
                if (clientsAsked.incrementAndGet() > MOST_CLIENTS_ASKED) {
                    clientsAsked.decrementAndGet();
                    abandon();
                    return;
                }
                Thread thread = new Thread(this::askClient, "spillgate-topology");
                thread.setDaemon(true);
                thread.start();
                return;
            }
            Server server = some.next();
            server.lane()
                    .send(commands -> commands.clusterSlots().collectList())
                    .timeout(
                            LONGEST_WAIT,
                            Mono.error(() -> noSlots(server.name() + " did not report", LONGEST_WAIT)),
                            Background.scheduler())
                    .publishOn(Background.scheduler())
                    .map(reply -> parse(reply, server))
                    .filter(ranges -> !ranges.isEmpty())
                    .switchIfEmpty(Mono.error(() -> new IllegalStateException("no slot has an owner")))
                    .subscribe(this::complete, error -> {
                        lastError = Errors.noCluster(server.name(), error);
                        askNext(some);
                    });
        }

        /**
         * Asks the client, on a thread of its own because the client blocks. It looks for the nodes again only if it is
         * told to.
         */
        private void askClient() {
            try {
                if (clientHasNodes) {
                    client.refreshPartitions();
                }
                List<SlotRange> ranges = new ArrayList<>();
                for (RedisClusterNode node : client.getPartitions()) {
                    RedisURI uri = node.getUri();
                    cluster.useSettingsOf(uri);
                    clientHasNodes = true;
                    if (!node.getRole().isUpstream()) {
                        continue;
                    }
                    node.getSlots()
                            .forEach(slot -> ranges.add(new SlotRange(slot, slot, uri.getHost(), uri.getPort())));
                }
                complete(ranges);
            } catch (Throwable e) {
                end(Errors.noCluster("the configured server", e));
            } finally {
                clientsAsked.decrementAndGet();
            }
        }

        private void complete(List<SlotRange> ranges) {
            try {
                cluster.update(ranges);
                end(null);
            } catch (RuntimeException e) {
                end(e);
            }
        }

        private void end(@Nullable Throwable why) {
            endedAt = Time.nanos();
            if (why == null) {
                outcome.complete(null);
            } else {
                outcome.completeExceptionally(Errors.unreachable(why));
            }
        }

        /** Parses the reply to CLUSTER SLOTS: for each range its first and last slot, its owner, and the replicas. */
        private static List<SlotRange> parse(List<Object> reply, Server from) {
            List<SlotRange> ranges = new ArrayList<>();
            for (Object range : reply) {
                List<?> parts = (List<?>) range;
                List<?> node = (List<?>) parts.get(2);
                ranges.add(new SlotRange(
                        number(parts.get(0)), number(parts.get(1)), hostIn(node, from), number(node.get(1))));
            }
            return ranges;
        }

        /**
         * Returns the host of a node. A question mark is an unknown host name; the address then follows the id of the
         * node.
         */
        private static String hostIn(List<?> node, Server from) {
            String host = text(node.get(0));
            if (host.equals("?") && node.size() > 3 && node.get(3) instanceof List<?> more) {
                for (int i = 0; i + 1 < more.size(); i += 2) {
                    if (text(more.get(i)).equals("ip")) {
                        host = text(more.get(i + 1));
                    }
                }
            }
            return Cluster.knownHost(host, from);
        }

        private static int number(Object part) {
            return Math.toIntExact((Long) part);
        }

        private static String text(@Nullable Object part) {
            return part == null ? "" : new String((byte[]) part, StandardCharsets.UTF_8);
        }
    }
}
