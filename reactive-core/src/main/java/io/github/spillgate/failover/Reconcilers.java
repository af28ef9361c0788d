package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStore;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/** A {@link Reconciler} for each part of the store; one, where it has no parts. */
final class Reconcilers {

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    /** For more parts than that, one serves the rest. */
    private static final int MOST = 1_000;

    private static final String REST = "";

    private final LimitStore primary;
    private final LocalFallback fallback;
    private final CircuitGates gates;
    private final UnansweredCalls doubts;
    private final ConcurrentMap<String, Reconciler> byPart = new ConcurrentHashMap<>();
    private final Reconciler rest;

    private boolean over;
    private @Nullable Mono<Void> end;

    Reconcilers(LimitStore primary, LocalFallback fallback, CircuitGates gates, UnansweredCalls doubts) {
        this.primary = primary;
        this.fallback = fallback;
        this.gates = gates;
        this.doubts = doubts;
        this.rest = settler(REST);
    }

    private Reconciler settler(String part) {
        return new Reconciler(
                primary,
                fallback,
                part,
                () -> part.equals(REST) ? gates.whole() : gates.to(part),
                claim -> isOf(claim, part),
                doubts);
    }

    /** A count whose slot has moved is another one's by now, which may be asleep. */
    private boolean isOf(Claim claim, String part) {
        Reconciler settler = of(claim);
        boolean isOurs = settler == (part.equals(REST) ? rest : byPart.get(part));
        if (!isOurs) {
            settler.wake();
        }
        return isOurs;
    }

    private Reconciler of(Claim claim) {
        String part = primary.part(List.of(claim));
        Reconciler known = part.equals(REST) ? rest : byPart.get(part);
        if (known != null) {
            return known;
        }
        return added(part);
    }

    /** Nobody comes to be while all are being ended, for he would not be. */
    private synchronized Reconciler added(String part) {
        return over || byPart.size() >= MOST ? rest : byPart.computeIfAbsent(part, this::settler);
    }

    /** There is something to settle. */
    void wake(Decision granted) {
        for (Decision.Usage usage : granted.limits()) {
            of(usage.claim()).wake();
        }
    }

    /** Somebody asks for what the store must not decide before it is settled. */
    void hurry(List<Claim> claims) {
        for (Claim claim : claims) {
            of(claim).hurry();
        }
    }

    /** Whether something of this has been handed over and is not on its way. */
    boolean hold(List<Claim> claims) {
        if (rest.holds(claims)) {
            return true;
        }
        for (Reconciler settler : byPart.values()) {
            if (settler.holds(claims)) {
                return true;
            }
        }
        return false;
    }

    /** Has all of them try once more what is left, and ends them. */
    synchronized Mono<Void> end() {
        Mono<Void> known = end;
        if (known == null) {
            over = true;
            List<Mono<Void>> all = new ArrayList<>(List.of(rest.end()));
            byPart.values().forEach(settler -> all.add(settler.end()));
            known = Mono.when(all).doOnSuccess(ended -> tellWhatIsLeft()).cache();
            end = known;
            known.subscribe();
        }
        return known;
    }

    private void tellWhatIsLeft() {
        long left = fallback.state().toReconcile();
        if (left > 0) {
            LOG.warn("{} permits that {} has granted will not be charged in {}", left, fallback, primary);
        }
    }
}
