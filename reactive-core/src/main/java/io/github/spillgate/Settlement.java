package io.github.spillgate;

import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;

/**
 * What one store has admitted under one identity in place of another, to be charged there once.
 *
 * <p>Times are ages: the two stores need not have the same clock. Every hit is between two ages, because not every count
 * remembers more than that.
 */
public final class Settlement {

    private final String id;
    private final Claim claim;
    private final List<Hits> hits;
    private final InstantSource clock;

    private Settlement(String id, Claim claim, List<Hits> hits, InstantSource clock) {
        this.id = id;
        this.claim = claim;
        this.hits = hits;
        this.clock = clock;
    }

    /**
     * A settlement. For stores.
     *
     * @param id 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}; no other settlement, of whatever process, has it
     * @param claim whose count it is; what it asks is of no matter
     * @param hits at least one, the oldest first
     * @param clock what the times of the hits are of
     * @return the settlement
     */
    public static Settlement of(String id, Claim claim, List<Hits> hits, InstantSource clock) {
        if (hits.isEmpty()) {
            throw new IllegalArgumentException("settlement " + Text.quote(id)
                    + " has no hits: expected at least one, for example new Hits(1790000000000, 1790000000000, 3)");
        }
        return new Settlement(Names.check("settlement id", id, "\"k3x9-17\""), claim, List.copyOf(hits), clock);
    }

    /**
     * Returns what tells this settlement from every other.
     *
     * @return the id
     */
    public String id() {
        return id;
    }

    /**
     * Returns whose count it is.
     *
     * @return a claim with the identity and the limit
     */
    public Claim claim() {
        return claim;
    }

    /**
     * Returns how many permits it is about.
     *
     * @return all of them, whether they still count or not
     */
    public long permits() {
        long permits = 0;
        for (Hits some : hits) {
            permits += some.permits;
        }
        return permits;
    }

    /**
     * Returns when the first of it was admitted.
     *
     * @return milliseconds of the clock of the store that has admitted it
     */
    public long firstMillis() {
        return hits.get(0).fromMillis;
    }

    /**
     * Returns when the last of it was admitted.
     *
     * @return milliseconds of the clock of the store that has admitted it
     */
    public long lastMillis() {
        return hits.get(hits.size() - 1).toMillis;
    }

    /**
     * Returns what was admitted, by how long ago that is now.
     *
     * @return the same hits with ages in place of times, the oldest first
     */
    public List<Hits> ages() {
        long now = clock.millis();
        List<Hits> ages = new ArrayList<>(hits.size());
        for (Hits some : hits) {
            ages.add(new Hits(Math.max(0, now - some.fromMillis), Math.max(0, now - some.toMillis), some.permits));
        }
        return ages;
    }

    /**
     * Returns whether any of it still counts.
     *
     * @return false once all of it has left its window; of a counter, both
     */
    public boolean counts() {
        return clock.millis() - lastMillis() < claim.limit().reach().toMillis();
    }

    /** Returns the settlement for a log: with the key encoded. */
    @Override
    public String toString() {
        return "Settlement[" + id + ", " + claim.identity() + ", permits=" + permits() + "]";
    }

    /**
     * So many permits, admitted in a stretch of time.
     *
     * @param fromMillis when the first of them can have been admitted, or how long ago
     * @param toMillis when the last of them can have been admitted, or how long ago
     * @param permits how many
     */
    public record Hits(long fromMillis, long toMillis, long permits) {}
}
