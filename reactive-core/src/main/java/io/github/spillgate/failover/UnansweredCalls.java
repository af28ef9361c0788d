package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * The counts on which a question is open that nobody waits for any more: until its answer is known, nothing of them is
 * settled. As many as there are open questions, each with its claims.
 */
final class UnansweredCalls {

    private final ConcurrentMap<String, Integer> open = new ConcurrentHashMap<>();

    void begin(List<Claim> claims) {
        for (Claim claim : claims) {
            open.merge(claim.identity(), 1, Integer::sum);
        }
    }

    void end(List<Claim> claims) {
        for (Claim claim : claims) {
            open.computeIfPresent(claim.identity(), (identity, times) -> times == 1 ? null : times - 1);
        }
    }

    boolean onAny(List<Claim> claims) {
        for (Claim claim : claims) {
            if (on(claim.identity())) {
                return true;
            }
        }
        return false;
    }

    boolean on(String identity) {
        return open.containsKey(identity);
    }

    int size() {
        return open.size();
    }
}
