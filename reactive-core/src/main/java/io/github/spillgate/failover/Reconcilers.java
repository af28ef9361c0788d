package io.github.spillgate.failover;

import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/** The reconcilers of a store: one, or one for each node, so that a node that fails does not delay the others. */
final class Reconcilers {

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    /** The highest number of nodes with a reconciler of their own; one reconciler serves all others. */
    private static final int MOST = 1_000;

    /** The name of the node of a store that is one whole, and of the nodes without a reconciler of their own. */
    private static final String REST = "";

    private final LimitStore primary;
    private final LocalFallback fallback;
    private final CircuitGates gates;
    private final UnansweredCalls unanswered;
    private final Consumer<ChargedPermits> refunds;
    private final ConcurrentMap<String, Reconciler> byNode = new ConcurrentHashMap<>();
    private final Reconciler rest;

    private boolean closing;
    private @Nullable Mono<Void> end;

    Reconcilers(
            LimitStore primary,
            LocalFallback fallback,
            CircuitGates gates,
            UnansweredCalls unanswered,
            Consumer<ChargedPermits> refunds) {
        this.primary = primary;
        this.fallback = fallback;
        this.gates = gates;
        this.unanswered = unanswered;
        this.refunds = refunds;
        this.rest = reconciler(REST);
        byNode.put(REST, rest);
    }

    private Reconciler reconciler(String node) {
        return new Reconciler(primary, fallback, node, gates, claim -> isOf(claim, node), unanswered, refunds);
    }

    /** If the slot of a count has moved, it belongs to another reconciler, which may have to be started. */
    private boolean isOf(Claim claim, String node) {
        Reconciler reconciler = of(claim);
        boolean isOurs = reconciler == byNode.get(node);
        if (!isOurs) {
            reconciler.start();
        }
        return isOurs;
    }

    private Reconciler of(Claim claim) {
        String node = primary.node(List.of(claim));
        Reconciler known = byNode.get(node);
        return known == null ? added(node) : known;
    }

    /** Creates no reconciler during shutdown: it would never be closed. */
    private synchronized Reconciler added(String node) {
        return closing || byNode.size() > MOST ? rest : byNode.computeIfAbsent(node, this::reconciler);
    }

    /** Starts the reconcilers of a grant. */
    void start(List<Claim> granted) {
        for (Claim claim : granted) {
            of(claim).start();
        }
    }

    /** Runs the reconcilers of these claims soon, because a request waits for them. */
    void expedite(List<Claim> claims) {
        for (Claim claim : claims) {
            of(claim).expedite();
        }
    }

    /** Returns whether grants on one of these counts were handed over and are not in flight. */
    boolean hold(List<Claim> claims) {
        return byNode.values().stream().anyMatch(reconciler -> reconciler.holds(claims));
    }

    /** Returns whether grants on one of these counts cannot be charged, because another program has written its key. */
    boolean cannotCharge(List<Claim> claims) {
        return byNode.values().stream().anyMatch(reconciler -> reconciler.cannotCharge(claims));
    }

    /** Makes a last attempt, and ends all of them. */
    synchronized Mono<Void> end() {
        Mono<Void> known = end;
        if (known == null) {
            closing = true;
            List<Mono<Void>> all = byNode.values().stream().map(Reconciler::end).toList();
            known = Mono.when(all).doOnSuccess(ended -> logWhatIsLeft()).cache();
            end = known;
            known.subscribe();
        }
        return known;
    }

    private void logWhatIsLeft() {
        long left = fallback.state().toReconcile();
        if (left > 0) {
            LOG.warn("{} permits that {} has granted will not be charged in {}", left, fallback, primary);
        }
    }
}
