package io.github.spillgate.failover;

import io.github.spillgate.internal.Background;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The holds that ended during an outage of the primary store. They are released when it is back, unless they have
 * expired there by then. Bounded: any further hold expires.
 */
final class ReleaseQueue {

    static final int MOST = 10_000;

    private static final int BATCH = 128;
    private static final long INTERVAL = TimeUnit.SECONDS.toNanos(1);
    private static final Duration LAST_ATTEMPT = Duration.ofSeconds(1);

    private final LimitStore primary;
    private final CircuitGates gates;
    private final ConcurrentHashMap<HoldKey, PendingRelease> waiting = new ConcurrentHashMap<>();
    private final AtomicBoolean scheduled = new AtomicBoolean();
    private final Mono<Void> lastAttempt = Mono.defer(() -> waiting.isEmpty() ? Mono.empty() : releaseAll())
            .timeout(LAST_ATTEMPT, Schedulers.parallel())
            .onErrorComplete()
            .cache();
    private volatile boolean closed;

    ReleaseQueue(LimitStore primary, CircuitGates gates) {
        this.primary = primary;
        this.gates = gates;
    }

    /** Adds holds, which are released later. */
    void add(List<Claim> holds) {
        long now = Deadlines.now();
        for (Claim claim : holds) {
            UUID id = claim.holdId();
            if (id != null && waiting.size() < MOST) {
                long expiresAt = now + claim.limit().window().toNanos();
                waiting.putIfAbsent(new HoldKey(claim.handle(), id), new PendingRelease(claim, expiresAt));
            }
        }
        start();
    }

    int size() {
        return waiting.size();
    }

    private void start() {
        if (!closed && !waiting.isEmpty() && scheduled.compareAndSet(false, true)) {
            Background.scheduler().schedule(this::run, INTERVAL, TimeUnit.NANOSECONDS);
        }
    }

    private void run() {
        if (closed) {
            return;
        }
        releaseAll()
                .doFinally(end -> {
                    scheduled.set(false);
                    start();
                })
                .subscribe(null, error -> {});
    }

    /** Makes a last attempt to release all, for at most 1 s, and ends; never an error. What is left expires. */
    Mono<Void> end() {
        closed = true;
        lastAttempt.subscribe();
        return lastAttempt;
    }

    /** Makes an attempt to release all; never an error. */
    private Mono<Void> releaseAll() {
        return Flux.defer(() -> Flux.fromIterable(batches()))
                .concatMap(this::release)
                .then();
    }

    /** Those of a node that does not answer do not delay the others. */
    private List<List<PendingRelease>> batches() {
        long now = Deadlines.now();
        waiting.values().removeIf(release -> now - release.expiresAt >= 0);
        List<List<PendingRelease>> batches = new ArrayList<>();
        waiting.values().stream()
                .collect(Collectors.groupingBy(release -> primary.node(List.of(release.claim))))
                .values()
                .forEach(ofNode -> {
                    for (int from = 0; from < ofNode.size(); from += BATCH) {
                        batches.add(ofNode.subList(from, Math.min(ofNode.size(), from + BATCH)));
                    }
                });
        return batches;
    }

    private Mono<Void> release(List<PendingRelease> batch) {
        List<Claim> holds = batch.stream().map(PendingRelease::claim).toList();
        // This also detects that the store is back: there may be no requests that do.
        return Mono.defer(() -> gates.to(holds).change("release", () -> primary.release(holds)))
                .doOnSuccess(done -> waiting.values().removeAll(Set.copyOf(batch)))
                .onErrorComplete();
    }

    /** A request on several counts has one id for all of them. */
    private record HoldKey(Object count, UUID id) {}

    /**
     * A hold to release.
     *
     * @param claim the claim that took it
     * @param expiresAt when it has expired in the primary store, by {@link Deadlines#now()}
     */
    private record PendingRelease(Claim claim, long expiresAt) {}
}
