package io.github.spillgate.internal;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What becomes of the permits of a decision: under each of its counts they are refunded or settled once, in the place
 * in which they are then. Thread-safe: of a move and a refund at the same time, the later one sees the earlier one.
 *
 * @param <D> the type of the decision
 */
public final class PermitUse<D> {

    /** The costs since, by the handles of the claims that were redeemed. Few decisions have any. */
    private Map<Object, Long> redeemed = Map.of();

    private @Nullable D holder;

    /**
     * Claims the right to refund or settle permits.
     *
     * @param costs the costs that they have from now on, by the handles of their claims
     * @return those that were not redeemed before, and where they are
     */
    public synchronized Redeemed<D> redeem(Map<Object, Long> costs) {
        Set<Object> handles = new HashSet<>(costs.keySet());
        handles.removeAll(redeemed.keySet());
        Map<Object, Long> all = new HashMap<>(redeemed);
        handles.forEach(handle -> all.put(handle, costs.get(handle)));
        redeemed = all;
        return new Redeemed<>(handles, holder);
    }

    /**
     * Notes that another decision holds the permits from now on. Call this once at most.
     *
     * @param other the decision of another store on the same claims
     * @return the costs of the permits that were redeemed before, by the handles of their claims
     */
    public synchronized Map<Object, Long> moveTo(D other) {
        holder = other;
        return Map.copyOf(redeemed);
    }

    /**
     * Permits that are redeemed now.
     *
     * @param <D> the type of the decision
     * @param handles the handles of their claims
     * @param holder the decision that holds them; null if they have not moved
     */
    public record Redeemed<D>(Set<Object> handles, @Nullable D holder) {}
}
