package io.github.spillgate.redis;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;

/** The decision of several servers. */
public final class CombinedDecision {

    private CombinedDecision() {}

    /** Combines decisions, like the store for a cluster. */
    public static StoreDecision of(List<Claim> claims, List<StoreDecision> parts) {
        return MultiSlotDecider.combined(claims, parts);
    }
}
