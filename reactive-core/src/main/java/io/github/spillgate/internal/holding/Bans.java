package io.github.spillgate.internal.holding;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;

/** The bans and pauses of calls, as reconciliations: the later end counts, however often one is sent. */
public final class Bans {

    private final String limiter;
    private final InstantSource clock;

    /**
     * Creates the bans of a limiter.
     *
     * @param limiter the name of the limiter
     * @param clock its clock
     */
    public Bans(String limiter, InstantSource clock) {
        this.limiter = limiter;
        this.clock = clock;
    }

    /** Returns the claims that are on bans and pauses. */
    public static List<Claim> among(List<Claim> claims) {
        return claims.stream().filter(claim -> !claim.limit().takesPermits()).toList();
    }

    /** Returns the claims of an attempt for a caller that waits: if it is denied, that counts for no ban. */
    public static List<Claim> withoutStrikes(List<Claim> claims) {
        if (among(claims).isEmpty()) {
            return claims;
        }
        return claims.stream()
                .map(claim -> !claim.limit().takesPermits() && claim instanceof HeldClaim ours
                        ? ours.withoutStrikes()
                        : claim)
                .toList();
    }

    /**
     * Returns a reconciliation for each ban among the claims.
     *
     * @param isPause whether pauses are meant, and no bans
     * @param time the time of the ban
     * @throws IllegalArgumentException if the time is out of range
     * @throws IllegalStateException if there is none
     */
    public List<Reconciliation> of(List<Claim> claims, boolean isPause, Duration time) {
        List<Claim> banned = among(claims).stream()
                .filter(claim -> ((Limit.Ban) claim.limit()).isPause() == isPause)
                .toList();
        if (banned.isEmpty()) {
            throw new IllegalStateException("limiter " + limiter + " cannot " + (isPause ? "pause" : "ban")
                    + " this key: expected a limit for that, for example "
                    + (isPause ? "Limit.pausable()" : "Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10))"));
        }
        return banned.stream().map(claim -> of(claim, time)).toList();
    }

    private Reconciliation of(Claim claim, Duration time) {
        Duration longest = claim.limit().quotaWindow();
        if (time.compareTo(Duration.ofMillis(1)) < 0 || time.compareTo(longest) > 0) {
            throw new IllegalArgumentException("time " + time + " is out of range: expected 1 ms to " + longest
                    + " for limit " + claim.limit() + ", for example Duration.ofMinutes(5)");
        }
        long now = clock.millis();
        Grants ban = new Grants(now, now, time.toMillis());
        // A source of its own: calls of several threads overtake one another, and the latest end counts.
        return Reconciliation.of(Settlements.nextId(), 1, claim, List.of(ban), List.of(), clock);
    }
}
