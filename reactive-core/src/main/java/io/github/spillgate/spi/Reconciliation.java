package io.github.spillgate.spi;

import io.github.spillgate.internal.Names;
import io.github.spillgate.internal.Text;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The permits that one store granted under one identity on behalf of another, to be charged there once: at the times of
 * the grants, and even above the limit. Permits that no longer count are not charged. One that cannot be charged now is
 * sent again while it counts.
 *
 * <p>Times are passed as ages, because the two stores may have different clocks. Each of the grants has a range of
 * ages, because some counts do not record more precise times.
 */
public final class Reconciliation implements Correction {

    private static final long NEVER = Long.MIN_VALUE;

    private final String source;
    private final long number;
    private final Claim claim;
    private final List<Grants> grants;
    private final List<LostPermits> lost;
    private final InstantSource clock;
    private final List<Claim> holds;

    /** When this was last sent. Never lowered, so that a slow thread does not replace it by an earlier time. */
    private final AtomicLong sentAt = new AtomicLong(NEVER);

    private Reconciliation(
            String source,
            long number,
            Claim claim,
            List<Grants> grants,
            List<LostPermits> lost,
            InstantSource clock,
            List<Claim> holds) {
        this.source = source;
        this.number = number;
        this.claim = claim;
        this.grants = grants;
        this.lost = lost;
        this.clock = clock;
        this.holds = holds;
    }

    /**
     * Creates a reconciliation of grants, as in {@link #of(String, long, Claim, List, List, InstantSource)}.
     *
     * @param source the source
     * @param number the number
     * @param claim a claim on the count
     * @param grants the grants, at least one
     * @param clock the clock of the grants' times
     * @return the reconciliation
     */
    public static Reconciliation of(String source, long number, Claim claim, List<Grants> grants, InstantSource clock) {
        return of(source, number, claim, grants, List.of(), clock);
    }

    /**
     * Creates a reconciliation. For store implementations.
     *
     * @param source what has granted, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}; one source hands over the
     *     grants of a count one after another
     * @param number the number, higher than those of this source before, on the same count. A store does not charge a
     *     number again, or a lower one, unless it has lost the data of the count since
     * @param claim a claim on the count; its cost is ignored
     * @param grants the grants, the oldest first
     * @param lost permits that the store has lost; at least one of these, or of the grants
     * @param clock the clock of the times of all of them
     * @return the reconciliation
     */
    public static Reconciliation of(
            String source, long number, Claim claim, List<Grants> grants, List<LostPermits> lost, InstantSource clock) {
        if (grants.isEmpty() && lost.isEmpty()) {
            throw new IllegalArgumentException("reconciliation of " + Text.quote(source)
                    + " has no grants: expected at least one, for example new Grants(1790000000000, 1790000000000, 3)");
        }
        return new Reconciliation(
                Names.check("source of a reconciliation", source, "\"k3x9-17\""),
                number,
                claim,
                List.copyOf(grants),
                List.copyOf(lost),
                clock,
                List.of());
    }

    /**
     * Creates a reconciliation of permits of a concurrency limit. For store implementations.
     *
     * @param source the source, as in {@link #of}
     * @param number the number
     * @param claim a claim on the count; its cost is ignored
     * @param holds the claims that hold the permits, at least one
     * @param clock the clock of the store that granted them
     * @return the reconciliation, for which the store renews the holds
     */
    public static Reconciliation ofHolds(
            String source, long number, Claim claim, List<Claim> holds, InstantSource clock) {
        if (holds.isEmpty()) {
            throw new IllegalArgumentException("reconciliation of " + Text.quote(source)
                    + " has no holds: expected at least one, for example a claim with an id");
        }
        long now = clock.millis();
        long permits = holds.stream().mapToLong(Claim::permits).sum();
        return new Reconciliation(
                Names.check("source of a reconciliation", source, "\"k3x9-17\""),
                number,
                claim,
                List.of(new Grants(now, now, permits)),
                List.of(),
                clock,
                new CopyOnWriteArrayList<>(holds));
    }

    /**
     * Returns the claims that hold permits of a concurrency limit, without those that were released.
     *
     * @return the claims; empty for other limits
     */
    public List<Claim> holds() {
        return holds;
    }

    /**
     * Removes a hold, because it was released.
     *
     * @param holdId the id of the hold
     */
    public void dropHold(UUID holdId) {
        holds.removeIf(claim -> holdId.equals(claim.holdId()));
    }

    /**
     * Returns what has granted the permits.
     *
     * @return the source
     */
    public String source() {
        return source;
    }

    /**
     * Returns the number, which ascends for each source and count.
     *
     * @return the number
     */
    public long number() {
        return number;
    }

    /**
     * Returns a claim on the count.
     *
     * @return a claim with the identity and the limit
     */
    @Override
    public Claim claim() {
        return claim;
    }

    /**
     * Returns the number of permits.
     *
     * @return all permits, including those that no longer count
     */
    public long permits() {
        long permits = 0;
        for (Grants some : grants) {
            permits += some.permits;
        }
        return permits;
    }

    /**
     * Returns the grants.
     *
     * @return the grants, the oldest first
     */
    public List<Grants> grants() {
        return grants;
    }

    /**
     * Returns the permits that the store has lost.
     *
     * @return the permits, the oldest life first
     */
    public List<LostPermits> lost() {
        return lost;
    }

    /**
     * Returns this reconciliation under another number, without some of the oldest permits: they were refunded since.
     *
     * @param permits the number of permits
     * @param otherNumber the number, as in {@link #of}
     * @return the reconciliation, which may have no grants
     */
    public Reconciliation without(long permits, long otherNumber) {
        List<Grants> rest = new ArrayList<>();
        long left = permits;
        for (Grants some : grants) {
            long less = Math.min(left, some.permits);
            left -= less;
            if (less < some.permits) {
                rest.add(new Grants(some.fromMillis, some.toMillis, some.permits - less));
            }
        }
        return new Reconciliation(source, otherNumber, claim, rest, lost, clock, holds);
    }

    /**
     * Returns the grants with their current ages.
     *
     * @return the grants with ages instead of times, the oldest first
     */
    public List<Grants> ages() {
        return agesAt(clock.millis());
    }

    /**
     * Returns the grants with their current ages, and keeps the time for {@link #sentAges()}. A store that sends the
     * ages to a server calls this each time it encodes the request, or it must not report that it has charged the
     * grants now.
     *
     * @return the grants with ages instead of times, the oldest first
     */
    public List<Grants> agesToSend() {
        long now = clock.millis();
        sentAt.accumulateAndGet(now, Math::max);
        return agesAt(now);
    }

    /**
     * Returns the grants with the ages that were last sent. If a store replies that it has charged the grants now, it
     * has charged them at these ages.
     *
     * @return the grants with their ages then; with the current ones if {@link #agesToSend()} was never called
     */
    public List<Grants> sentAges() {
        long sent = sentAt.get();
        return sent == NEVER ? ages() : agesAt(sent);
    }

    /**
     * Returns times as ages.
     *
     * @param some grants of this reconciliation, or of lost permits
     * @return the same with their current ages instead of times
     */
    public List<Grants> ages(List<Grants> some) {
        return agesAt(some, clock.millis());
    }

    private List<Grants> agesAt(long now) {
        return agesAt(grants, now);
    }

    private static List<Grants> agesAt(List<Grants> some, long now) {
        List<Grants> ages = new ArrayList<>(some.size());
        for (Grants one : some) {
            ages.add(new Grants(Math.max(0, now - one.fromMillis), Math.max(0, now - one.toMillis), one.permits));
        }
        return ages;
    }

    /**
     * Returns whether any of the permits still count.
     *
     * @return false once all have left the window or, for a counter, both windows
     */
    public boolean counts() {
        long last = clock.millis() - claim.limit().reach().toMillis();
        return counts(grants, last) || lost.stream().anyMatch(some -> counts(some.grants(), last));
    }

    private static boolean counts(List<Grants> some, long last) {
        return !some.isEmpty() && some.get(some.size() - 1).toMillis > last;
    }

    /** Returns the reconciliation for log messages, with the key encoded. */
    @Override
    public String toString() {
        return "Reconciliation[" + source + "#" + number + ", " + claim.identity() + ", permits=" + permits() + "]";
    }

    /**
     * Permits that were granted within a period.
     *
     * @param fromMillis the earliest time at which the first of them was granted, or its age
     * @param toMillis the latest time at which the last of them was granted, or its age
     * @param permits the number of permits
     */
    public record Grants(long fromMillis, long toMillis, long permits) {}
}
