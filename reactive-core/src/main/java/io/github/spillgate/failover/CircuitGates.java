package io.github.spillgate.failover;

import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.spillgate.Claim;
import io.github.spillgate.LimitStore;
import io.github.spillgate.StoreState.Breaker;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The gates to a store: one, or where it has parts that fail apart from each other, one to each of them. Where one node
 * of a cluster is dead, only what is asked of that one falls back.
 *
 * <p>A part that nobody asks is forgotten, for it may have gone, and another one have come in its place; whoever asks
 * it again then finds its gate closed.
 */
final class CircuitGates {

    private static final int MOST = 1_000;
    private static final long LONGEST_UNASKED = TimeUnit.SECONDS.toNanos(10);
    private static final long GRAIN = TimeUnit.SECONDS.toNanos(1);

    private final LimitStore store;
    private final LimitStore fallback;
    private final int places;
    private final long deadline;
    private final UnaryOperator<CircuitBreakerConfig.Builder> change;
    private final CircuitGate whole;
    private final ConcurrentMap<String, Part> parts = new ConcurrentHashMap<>();

    /**
     * The gates to a store.
     *
     * @param places how many may be behind each of them at a time
     * @param deadline how long a decision may take, in nanoseconds
     * @param change what is different about their breakers
     */
    CircuitGates(
            LimitStore store,
            LimitStore fallback,
            int places,
            long deadline,
            UnaryOperator<CircuitBreakerConfig.Builder> change) {
        this.store = store;
        this.fallback = fallback;
        this.places = places;
        this.deadline = deadline;
        this.change = change;
        this.whole = gate("");
    }

    private CircuitGate gate(String part) {
        String what = part.isEmpty() ? store.toString() : store + " at " + part;
        return new CircuitGate(what, fallback.toString(), places, deadline, change);
    }

    /** The gate to the store as a whole. */
    CircuitGate whole() {
        return whole;
    }

    /** The gate to what decides on these claims. */
    CircuitGate to(List<Claim> claims) {
        String name = store.part(claims);
        return name.isEmpty() ? whole : to(name);
    }

    /** The gate to a part. */
    CircuitGate to(String name) {
        long now = Deadlines.now();
        Part known = parts.get(name);
        if (known == null || known.isForgotten(now)) {
            parts.values().removeIf(part -> part.isForgotten(now));
            if (parts.size() >= MOST) {
                return whole;
            }
            known = parts.computeIfAbsent(name, part -> new Part(gate(part), now));
        }
        known.asked(now);
        return known.gate;
    }

    /** Returns whether any part of the store decides. */
    boolean isAnyDeciding() {
        return asked().stream().anyMatch(CircuitGate::decides);
    }

    /** Returns whether the fallback decides in place of any part of the store. */
    boolean isAnyFallenBack() {
        return !asked().stream().allMatch(CircuitGate::decides);
    }

    /** The worst there is. */
    Breaker state() {
        return asked().stream().map(CircuitGate::state).max(Breaker::compareTo).orElseThrow();
    }

    /** What is wrong, of one that is as bad as any. */
    @Nullable
    String problem() {
        Breaker worst = state();
        return asked().stream()
                .filter(gate -> gate.state() == worst)
                .sorted(Comparator.comparing(CircuitGate::decides))
                .map(CircuitGate::problem)
                .filter(Objects::nonNull)
                .findFirst()
                .orElse(null);
    }

    /**
     * Those to the parts, if there are any: then nobody asks the whole. Where nobody has asked any of them for long,
     * all that is known is what was so when somebody did.
     */
    private List<CircuitGate> asked() {
        if (parts.isEmpty()) {
            return List.of(whole);
        }
        long now = Deadlines.now();
        List<Part> known = List.copyOf(parts.values());
        List<CircuitGate> gates = known.stream()
                .filter(part -> !part.isForgotten(now))
                .map(part -> part.gate)
                .toList();
        return gates.isEmpty() ? known.stream().map(part -> part.gate).toList() : gates;
    }

    /** The gate to one part, and when it was asked last. */
    private static final class Part {

        private final CircuitGate gate;
        private volatile long askedAt;

        Part(CircuitGate gate, long askedAt) {
            this.gate = gate;
            this.askedAt = askedAt;
        }

        boolean isForgotten(long now) {
            return now - askedAt > LONGEST_UNASKED;
        }

        void asked(long now) {
            if (now - askedAt > GRAIN) {
                askedAt = now;
            }
        }
    }
}
