package io.github.spillgate.internal.holding;

import io.github.spillgate.Decision;
import io.github.spillgate.spi.Claim;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;

/** The ids under which requests hold permits of concurrency limits. */
public final class HoldIds {

    private HoldIds() {}

    /** Returns whether any of the claims is on a concurrency limit. */
    public static boolean isAnyHold(List<Claim> claims) {
        for (int i = 0; i < claims.size(); i++) {
            if (claims.get(i).limit().holdsPermits()) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether a decision holds permits. */
    public static boolean areIn(Decision decision) {
        if (!decision.isCharged()) {
            return false;
        }
        for (Decision.Usage usage : decision.limits()) {
            if (usage.limit().holdsPermits() && usage.cost() > 0) {
                return true;
            }
        }
        return false;
    }

    /** Returns the claims of one attempt: those on concurrency limits with a new id. */
    public static List<Claim> assign(List<Claim> claims) {
        if (!isAnyHold(claims)) {
            return claims;
        }
        // Not from a secure source, which may block an event loop. An id is no secret.
        ThreadLocalRandom random = ThreadLocalRandom.current();
        UUID id = new UUID(random.nextLong(), random.nextLong());
        List<Claim> assigned = new ArrayList<>(claims.size());
        for (Claim claim : claims) {
            assigned.add(claim.limit().holdsPermits() ? claim.withHoldId(id) : claim);
        }
        return assigned;
    }

    /** Notes that permits were released by their decision, so that nothing renews them from now on. */
    public static void noteRelease(List<Claim> holds) {
        holds.forEach(claim -> ((HeldClaim) claim).noteRelease());
    }

    /** Returns the claims that hold permits. */
    public static List<Claim> holdsIn(List<Claim> claims) {
        return claims.stream()
                .filter(claim -> claim.holdId() != null && claim.permits() > 0)
                .toList();
    }
}
