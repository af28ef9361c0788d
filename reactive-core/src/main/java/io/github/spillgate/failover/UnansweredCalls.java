package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * The counts on which calls of the primary store have not ended: requests that the fallback has decided since, and
 * resets. Until they end, grants on these counts are not reconciled. Bounded by the number of calls in flight.
 */
final class UnansweredCalls {

    private final ConcurrentMap<String, Integer> calls = new ConcurrentHashMap<>();

    void begin(List<Claim> claims) {
        for (Claim claim : claims) {
            calls.merge(claim.identity(), 1, Integer::sum);
        }
    }

    void end(List<Claim> claims) {
        for (Claim claim : claims) {
            calls.computeIfPresent(claim.identity(), (identity, number) -> number == 1 ? null : number - 1);
        }
    }

    boolean onAny(List<Claim> claims) {
        return claims.stream().anyMatch(claim -> on(claim.identity()));
    }

    boolean on(String identity) {
        return calls.containsKey(identity);
    }

    int size() {
        return calls.size();
    }
}
