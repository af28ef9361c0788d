package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.ArrayList;
import java.util.List;

/** Separates claims that hold permits of concurrency limits from all others: they are released, and not refunded. */
final class HoldClaims {

    private HoldClaims() {}

    /** Returns the claims that hold permits. */
    static List<Claim> in(List<Claim> claims) {
        List<Claim> holds = List.of();
        for (Claim claim : claims) {
            if (claim.holdId() != null) {
                holds = holds.isEmpty() ? new ArrayList<>() : holds;
                holds.add(claim);
            }
        }
        return holds;
    }

    /** Returns a decision with its other claims only. */
    static StoreDecision without(StoreDecision decision) {
        return decision.only(usage -> usage.claim().holdId() == null);
    }
}
