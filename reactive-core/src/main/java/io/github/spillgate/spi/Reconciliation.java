package io.github.spillgate.spi;

import io.github.spillgate.Limit;
import io.github.spillgate.internal.Names;
import io.github.spillgate.internal.Text;
import java.time.InstantSource;
import java.util.List;
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
    private final List<Claim> holds;
    private final InstantSource clock;

    /** When this was last sent. Never lowered, so that a slow thread does not replace it by an earlier time. */
    private final AtomicLong sentAt = new AtomicLong(NEVER);

    private Reconciliation(
            String source,
            long number,
            Claim claim,
            List<Grants> grants,
            List<LostPermits> lost,
            List<Claim> holds,
            InstantSource clock) {
        this.source = Names.check("source of a reconciliation", source, "\"k3x9-17\"");
        this.number = number;
        this.claim = claim;
        this.grants = grants;
        this.lost = lost;
        this.holds = holds;
        this.clock = clock;
    }

    /**
     * Returns a reconciliation of permits of a rate limit.
     *
     * @param source what has granted, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}; one source hands over the
     *     grants of a count one after another
     * @param number the number, higher than those of this source before, on the same count. A store does not charge a
     *     number again, or a lower one, unless it has lost the data of the count since
     * @param claim a claim on the count; its cost is ignored
     * @param grants the grants, the oldest first
     * @param lost permits that the store has lost, the oldest life first; at least one of these, or of the grants
     * @param clock the clock of the times of all of them
     * @return the reconciliation
     */
    public static Reconciliation of(
            String source, long number, Claim claim, List<Grants> grants, List<LostPermits> lost, InstantSource clock) {
        if (grants.isEmpty() && lost.isEmpty()) {
            throw new IllegalArgumentException("reconciliation of " + Text.quote(source)
                    + " has no grants: expected at least one, for example new Grants(1790000000000, 1790000000000, 3)");
        }
        return new Reconciliation(source, number, claim, List.copyOf(grants), List.copyOf(lost), List.of(), clock);
    }

    /**
     * Returns a reconciliation of permits of a concurrency limit.
     *
     * @param source the source
     * @param number the number
     * @param claim a claim on the count; its cost is ignored
     * @param holds the claims that hold the permits, at least one; not copied, because some may be released by the time
     *     at which this is sent
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
        List<Grants> grants = List.of(
                new Grants(now, now, holds.stream().mapToLong(Claim::permits).sum()));
        return new Reconciliation(source, number, claim, grants, List.of(), holds, clock);
    }

    /**
     * Returns this reconciliation under another number, without permits that were refunded since.
     *
     * @param otherNumber the number, as in {@link #of}
     * @param rest the other grants, the oldest first
     * @return the reconciliation
     */
    public Reconciliation again(long otherNumber, List<Grants> rest) {
        return new Reconciliation(source, otherNumber, claim, rest, lost, holds, clock);
    }

    /** {@return what has granted the permits} */
    public String source() {
        return source;
    }

    /** {@return the number, which ascends for each source and count} */
    public long number() {
        return number;
    }

    @Override
    public Claim claim() {
        return claim;
    }

    /** {@return the grants, the oldest first} */
    public List<Grants> grants() {
        return grants;
    }

    /** {@return the permits that the store has lost, the oldest life first} */
    public List<LostPermits> lost() {
        return lost;
    }

    /** {@return the claims that hold permits of a concurrency limit; empty for other limits} */
    public List<Claim> holds() {
        return holds;
    }

    /** {@return the number of all granted permits, including those that no longer count; of bans, how many they are} */
    public long permits() {
        return !claim.limit().takesPermits()
                ? grants.size()
                : grants.stream().mapToLong(Grants::permits).sum();
    }

    /**
     * {@return the grants with their current ages instead of times} A store that sends them to a server calls this each
     * time it encodes the request, or it must not report that it has charged the grants now.
     */
    public List<Grants> agesToSend() {
        long now = clock.millis();
        sentAt.accumulateAndGet(now, Math::max);
        return ages(grants, now);
    }

    /** {@return the grants with the ages that were last sent; with the current ones if none were} */
    public List<Grants> sentAges() {
        long sent = sentAt.get();
        return ages(grants, sent == NEVER ? clock.millis() : sent);
    }

    /**
     * Returns times as ages.
     *
     * @param some grants of this reconciliation, or of lost permits
     * @return the same with their current ages instead of times
     */
    public List<Grants> ages(List<Grants> some) {
        return ages(some, clock.millis());
    }

    private List<Grants> ages(List<Grants> some, long now) {
        if (claim.limit() instanceof Limit.Quota) {
            return some;
        }
        return some.stream()
                .map(one -> new Grants(Math.max(0, now - one.fromMillis), Math.max(0, now - one.toMillis), one.permits))
                .toList();
    }

    /** Returns the reconciliation for log messages, with the key encoded. */
    @Override
    public String toString() {
        return "Reconciliation[" + source + "#" + number + ", " + claim.identity() + ", permits=" + permits() + "]";
    }

    /**
     * Permits that were granted within a period. Those of a quota have the period in which they count, with its start
     * and its end on the clock of the store, and never as an age. A ban has its time in place of permits.
     *
     * @param fromMillis the earliest time at which the first of them was granted, or its age
     * @param toMillis the latest time at which the last of them was granted, or its age
     * @param permits the number of permits; of a ban, its time from then on, in milliseconds
     */
    public record Grants(long fromMillis, long toMillis, long permits) {}
}
