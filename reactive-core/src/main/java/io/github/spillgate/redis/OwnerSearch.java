package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
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
import reactor.core.scheduler.Schedulers;

/**
 * Finds out which node of a cluster has which slot, for all who want to know it at the same time: from a few of the
 * nodes that are known, then from those that the user has named, or, if he has named none, from his client.
 */
final class OwnerSearch {
    // Design notes.
    //
    // Whoever waits here is told, and in finite time. Each attempt has an end: a node that says nothing is passed over
    // after a second, there are only so many nodes, and where the user's client takes too long, the next to come gives
    // the attempt up and begins another. An attempt is replaced by one compare-and-set; so there is one at a time, at
    // most one a second is begun, and whoever comes meanwhile goes by the newest.
    //
    // What is found counts, however late: also an attempt that has been given up tells what it finds. It may be wrong
    // by then, as all that is known of a cluster may be; the nodes themselves put it right.
    //
    // Nothing is remembered here but the newest attempt. Who the nodes are, and who has what, is for him to know for
    // whom it is found out.

    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(1);

    /** So many nodes are asked, one after another, before those that the user has named, or his client, are. */
    private static final int MOST_ASKED = 3;

    /**
     * One that takes longer is given up, and another one begins: a client that asks a node which stands still waits for
     * a minute, and the other nodes may be back long before. Each holds a thread, so there are few.
     */
    private static final long LONGEST_ATTEMPT = TimeUnit.SECONDS.toNanos(5);

    private static final int MOST_CLIENTS_ASKED = 2;

    private final RedisClusterClient client;
    private final List<RedisURI> seeds;
    private final Nodes nodes;
    private final AtomicReference<@Nullable SearchAttempt> newest = new AtomicReference<>();

    /** How many wait for the user's client at the moment. */
    private final AtomicInteger clientsAsked = new AtomicInteger();

    /** Whether the user's client has named nodes before; it looks by itself only once. */
    private volatile boolean clientHasLooked;

    /**
     * A search.
     *
     * @param seeds where to ask if no node that is known answers; if there are none, the client is asked
     * @param nodes the nodes, as far as they are known
     */
    OwnerSearch(RedisClusterClient client, List<RedisURI> seeds, Nodes nodes) {
        this.client = client;
        this.seeds = seeds;
        this.nodes = nodes;
    }

    /** Finds out who has which slot; whoever comes while somebody does, or soon after, goes by what that one finds. */
    Mono<Void> look() {
        while (true) {
            SearchAttempt known = newest.get();
            if (known != null && !known.isOld()) {
                return known.awaited;
            }
            SearchAttempt next = new SearchAttempt();
            if (newest.compareAndSet(known, next)) {
                next.start();
                if (known != null) {
                    // Elsewhere, because all who wait for it are told.
                    Schedulers.parallel().schedule(known::giveUp);
                }
                return next.awaited;
            }
        }
    }

    private static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** The nodes for which owners are searched. */
    interface Nodes {

        /** Those that are known. */
        Collection<Server> known();

        /** The one that is there, from now on known. */
        Server at(String host, int port);

        /** Hears how a node is connected to that the user's client has named; before it is told what that one has. */
        void connectedLike(RedisURI one);

        /** Hears who has what. */
        void found(List<Owner> owners);
    }

    /**
     * A node, as it is told who has some slots.
     *
     * @param from the first of them
     * @param to the last of them
     * @param host where the node is
     * @param port its port
     */
    record Owner(int from, int to, String host, int port) {}

    /** One attempt to find out who has which slot. */
    private final class SearchAttempt {

        private final CompletableFuture<@Nullable Void> outcome = new CompletableFuture<>();

        /** Cached, because whoever has left would be told of an error all the same. */
        private final Mono<Void> awaited = Mono.fromFuture(outcome, true).cache();

        private final long since = now();
        private volatile long endedAt;
        private volatile @Nullable Throwable lastError;

        boolean isOld() {
            return outcome.isDone() ? now() - endedAt > PAUSE : now() - since > LONGEST_ATTEMPT;
        }

        /** Another one has begun; what this one may still find is taken into account all the same. */
        void giveUp() {
            if (!outcome.isDone()) {
                end(noSlots("no node reported", Duration.ofNanos(LONGEST_ATTEMPT)));
            }
        }

        private static LimitStoreException noSlots(String subject, Duration waited) {
            return new LimitStoreUnreachableException(
                    "Redis is unavailable: " + subject + " the slots of the cluster within " + waited.toSeconds()
                            + " s",
                    null);
        }

        void start() {
            List<Server> all = new ArrayList<>(nodes.known());
            Collections.shuffle(all);
            // Those first who are well; but others may be back, and nobody have asked them yet.
            List<Server> notWell = new ArrayList<>(all);
            notWell.removeIf(server -> server.connection().ifWell() != null);
            all.removeAll(notWell);
            all.addAll(notWell);
            List<Server> some;
            try {
                some = Stream.concat(
                                all.stream().limit(MOST_ASKED),
                                seeds.stream().map(seed -> nodes.at(seed.getHost(), seed.getPort())))
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
                    giveUp();
                    return;
                }
                Thread thread = new Thread(this::askClient, "spillgate-topology");
                thread.setDaemon(true);
                thread.start();
                return;
            }
            Server server = some.next();
            server.connection()
                    .ask(commands -> commands.clusterSlots().collectList())
                    .timeout(
                            LONGEST_WAIT,
                            Mono.error(() -> noSlots(server.name() + " did not report", LONGEST_WAIT)),
                            Schedulers.parallel())
                    .publishOn(Schedulers.parallel())
                    .map(reply -> read(reply, server))
                    .filter(owners -> !owners.isEmpty())
                    .switchIfEmpty(Mono.error(() -> new IllegalStateException("no slot has an owner")))
                    .subscribe(this::found, error -> {
                        lastError = Errors.noCluster(server.name(), error);
                        askNext(some);
                    });
        }

        /**
         * Takes a thread, because the client answers to nobody who does not wait, and asks anew only if it is told to.
         */
        private void askClient() {
            try {
                if (clientHasLooked) {
                    client.refreshPartitions();
                }
                List<Owner> owners = new ArrayList<>();
                for (RedisClusterNode node : client.getPartitions()) {
                    RedisURI uri = node.getUri();
                    nodes.connectedLike(uri);
                    clientHasLooked = true;
                    if (!node.getRole().isUpstream()) {
                        continue;
                    }
                    node.getSlots().forEach(slot -> owners.add(new Owner(slot, slot, uri.getHost(), uri.getPort())));
                }
                found(owners);
            } catch (Throwable e) {
                end(Errors.noCluster("the configured server", e));
            } finally {
                clientsAsked.decrementAndGet();
            }
        }

        private void found(List<Owner> owners) {
            try {
                nodes.found(owners);
                end(null);
            } catch (RuntimeException e) {
                end(e);
            }
        }

        private void end(@Nullable Throwable why) {
            endedAt = now();
            if (why == null) {
                outcome.complete(null);
            } else {
                outcome.completeExceptionally(Errors.unreachable(why));
            }
        }

        /** What a node says to CLUSTER SLOTS: of each stretch its ends, who has it, and his replicas. */
        private static List<Owner> read(List<Object> reply, Server by) {
            List<Owner> owners = new ArrayList<>();
            for (Object stretch : reply) {
                List<?> parts = (List<?>) stretch;
                List<?> node = (List<?>) parts.get(2);
                owners.add(
                        new Owner(number(parts.get(0)), number(parts.get(1)), hostIn(node, by), number(node.get(1))));
            }
            return owners;
        }

        /**
         * A question mark stands for a host name that nobody knows; then the address follows behind the id of the node.
         */
        private static String hostIn(List<?> node, Server by) {
            String host = text(node.get(0));
            if (host.equals("?") && node.size() > 3 && node.get(3) instanceof List<?> more) {
                for (int i = 0; i + 1 < more.size(); i += 2) {
                    if (text(more.get(i)).equals("ip")) {
                        host = text(more.get(i + 1));
                    }
                }
            }
            return host.isEmpty() || host.equals("?") ? Cluster.hostOf(by) : host;
        }

        private static int number(Object part) {
            return Math.toIntExact((Long) part);
        }

        private static String text(@Nullable Object part) {
            return part == null ? "" : new String((byte[]) part, StandardCharsets.UTF_8);
        }
    }
}
