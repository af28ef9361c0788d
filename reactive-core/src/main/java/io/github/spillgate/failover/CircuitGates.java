package io.github.spillgate.failover;

import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The gates to a store: one, or one for each node that fails independently. If one node of a cluster is down, only
 * requests to that node fall back.
 *
 * <p>A node without requests is dropped after a while, because it may have been removed or replaced. The next request
 * to it gets a new gate, with a closed breaker.
 */
final class CircuitGates {

    private static final int MOST = 1_000;
    private static final long LONGEST_UNUSED = TimeUnit.SECONDS.toNanos(10);

    /** The precision of the time of the last request, so that few requests write it. */
    private static final long GRAIN = TimeUnit.SECONDS.toNanos(1);

    private final LimitStore store;
    private final Function<String, CircuitGate> newGate;
    private final CircuitGate whole;
    private final ConcurrentMap<String, NodeGate> nodes = new ConcurrentHashMap<>();
    private volatile Consumer<String> onAvailable = node -> {};

    /** Creates the gates to a store, each with these settings. */
    CircuitGates(
            LimitStore store,
            LimitStore fallback,
            int mostInFlight,
            long deadlineNanos,
            UnaryOperator<CircuitBreakerConfig.Builder> userSettings) {
        this.store = store;
        this.newGate = node -> new CircuitGate(
                node.isEmpty() ? store.toString() : store + " at " + node,
                fallback.toString(),
                mostInFlight,
                deadlineNanos,
                userSettings,
                () -> onAvailable.accept(node));
        this.whole = newGate.apply("");
    }

    /** Sets what is called with the name of a node that is available again; empty for the store as a whole. */
    void onAvailable(Consumer<String> listener) {
        onAvailable = listener;
    }

    /** Returns the gate to the store as a whole. */
    CircuitGate whole() {
        return whole;
    }

    /** Returns the gate to the node that decides on these claims. */
    CircuitGate to(List<Claim> claims) {
        return to(store.node(claims));
    }

    /** Returns the same; if the store cannot name the node now, the gate to the store as a whole. */
    CircuitGate toOrWhole(List<Claim> claims) {
        try {
            return to(claims);
        } catch (RuntimeException e) {
            return whole;
        }
    }

    /** Returns the gate to a node; to the store as a whole if the name is empty. */
    CircuitGate to(String name) {
        if (name.isEmpty()) {
            return whole;
        }
        long now = Time.nanos();
        NodeGate known = nodes.get(name);
        if (known == null || known.isExpired(now)) {
            nodes.values().removeIf(node -> node.isExpired(now));
            if (nodes.size() >= MOST) {
                return whole;
            }
            known = nodes.computeIfAbsent(name, node -> new NodeGate(newGate.apply(node), now));
        }
        known.use(now);
        return known.gate;
    }

    /** Asks nodes that do not decide whether they are available again, if no requests do. Call this every second. */
    void probeIdle(BooleanSupplier isReconciled) {
        whole.probeIfIdle(() -> store.prepare(""), isReconciled);
        nodes.forEach((name, node) -> node.gate.probeIfIdle(() -> store.prepare(name), isReconciled));
    }

    /** Returns whether any node of the store decides. */
    boolean isAnyDeciding() {
        return inUse().stream().anyMatch(CircuitGate::decides);
    }

    /** Returns whether the fallback decides instead of any node of the store. */
    boolean isAnyFallenBack() {
        return !inUse().stream().allMatch(CircuitGate::decides);
    }

    /** Returns the worst state of all breakers. */
    Breaker state() {
        return inUse().stream().map(CircuitGate::state).max(Breaker::compareTo).orElseThrow();
    }

    /** Returns what is wrong at a gate in the worst state. */
    @Nullable
    String problem() {
        Breaker worst = state();
        return inUse().stream()
                .filter(gate -> gate.state() == worst)
                .sorted(Comparator.comparing(CircuitGate::decides))
                .map(CircuitGate::problem)
                .filter(Objects::nonNull)
                .findFirst()
                .orElse(null);
    }

    /**
     * Returns the gates in use: those to nodes, if there are any. If none of them was used lately, their last known
     * states are all that is known.
     */
    private List<CircuitGate> inUse() {
        if (nodes.isEmpty()) {
            return List.of(whole);
        }
        long now = Time.nanos();
        List<NodeGate> known = List.copyOf(nodes.values());
        List<CircuitGate> gates = known.stream()
                .filter(node -> !node.isExpired(now))
                .map(node -> node.gate)
                .toList();
        return gates.isEmpty() ? known.stream().map(node -> node.gate).toList() : gates;
    }

    /** The gate to a node, and the time of the last request. */
    private static final class NodeGate {

        private final CircuitGate gate;
        private volatile long usedAt;

        NodeGate(CircuitGate gate, long usedAt) {
            this.gate = gate;
            this.usedAt = usedAt;
        }

        boolean isExpired(long now) {
            return now - usedAt > LONGEST_UNUSED;
        }

        void use(long now) {
            if (now - usedAt > GRAIN) {
                usedAt = now;
            }
        }
    }
}
