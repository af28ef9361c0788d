package io.github.spillgate;

import io.github.spillgate.CountName.Prefix;
import java.util.ArrayList;
import java.util.List;

/**
 * One limit of one {@link Charge}, as passed to a {@link LimitStore}: the identity of the count, the limit and the
 * cost. The claims of a decision have different identities, and no cost is above its limit. The {@link RateLimiter}
 * ensures both for every store.
 */
public final class Claim {

    /** The most claims in one decision; one script reads and writes a key for each. */
    static final int MOST_CLAIMS = 16;

    private final LimitStore store;
    private final CountName name;
    private final String key;
    private final long permits;

    private Claim(LimitStore store, CountName name, String key, long permits) {
        this.store = store;
        this.name = name;
        this.key = key;
        this.permits = permits;
    }

    /**
     * Returns the name of the count: limiter, limit, algorithm, window, resolution or alignment, and the encoded key
     * with its group. It is printable ASCII without spaces, at most 500 characters. It does not contain the permits, so
     * they can change without losing the history.
     *
     * @return the identity
     */
    public String identity() {
        return name.text();
    }

    /**
     * Returns an object that represents the identity in this process, for use as the key of a map. It equals the handle
     * of a claim if and only if their identities are equal, is comparable with other handles, and is cheaper to create
     * than the identity. For store implementations.
     *
     * @return the handle; its {@code toString()} is the identity
     */
    public Object handle() {
        return name;
    }

    /**
     * Returns the key that is charged.
     *
     * @return the key as the caller passed it, not encoded
     */
    public String key() {
        return key;
    }

    /**
     * Returns the limit.
     *
     * @return the limit
     */
    public Limit limit() {
        return name.limit();
    }

    /**
     * Returns the cost.
     *
     * @return the number of permits, never negative
     */
    public long permits() {
        return permits;
    }

    /**
     * Returns the same claim with another cost. For store implementations.
     *
     * @param permits the cost, not negative and at most the limit's permits
     * @return a claim on the same count
     */
    public Claim asking(long permits) {
        return new Claim(store, name, key, Charge.checkPermits(permits));
    }

    /** Returns whether this claim was created for that store. */
    boolean isFor(LimitStore other) {
        return store == other;
    }

    /** Returns the claims of one charge, each with a different identity. */
    static List<Claim> of(LimitStore store, String limiter, List<Prefix> defaults, Charge charge) {
        List<Prefix> limits = charge.limits().isEmpty() ? defaults : prefixes(limiter, charge.limits());
        if (limits.isEmpty()) {
            throw new IllegalArgumentException("neither the charge nor limiter " + limiter
                    + " has a limit: expected one of them to have, for example"
                    + " Charge.of(\"user:42\", Limit.perMinute(120))");
        }
        String key = charge.encodedKey();
        String group = charge.encodedGroup();
        if (limits.size() == 1) {
            CountName name = new CountName(limits.get(0), key, group);
            return List.of(new Claim(store, name, charge.key(), charge.permits()));
        }
        List<Claim> claims = new ArrayList<>(limits.size());
        for (Prefix limit : limits) {
            claims.add(new Claim(store, new CountName(limit, key, group), charge.key(), charge.permits()));
        }
        return claims;
    }

    /** Returns the prefix of the identities for each limit. */
    static List<Prefix> prefixes(String limiter, List<Limit> limits) {
        return limits.stream().map(limit -> new Prefix(limiter, limit)).toList();
    }

    /** Returns the claims of several charges. Claims with the same identity are summed. */
    static List<Claim> of(LimitStore store, String limiter, List<Prefix> defaults, List<Charge> charges) {
        if (charges.size() == 1) {
            return of(store, limiter, defaults, charges.get(0));
        }
        if (charges.isEmpty()) {
            throw new IllegalArgumentException(
                    "no charge was given: expected at least one, for example Charge.of(\"user:42\")");
        }
        List<Claim> claims = new ArrayList<>();
        for (Charge charge : charges) {
            for (Claim claim : of(store, limiter, defaults, charge)) {
                add(claims, claim);
            }
            checkNumber(claims.size());
        }
        return claims;
    }

    private static void add(List<Claim> claims, Claim claim) {
        for (int i = 0; i < claims.size(); i++) {
            Claim earlier = claims.get(i);
            if (earlier.name.equals(claim.name)) {
                claims.set(i, earlier.plus(claim));
                return;
            }
        }
        claims.add(claim);
    }

    private Claim plus(Claim other) {
        if (!limit().equals(other.limit())) {
            throw new IllegalArgumentException("limits " + Text.quote(limit().toString()) + " and "
                    + Text.quote(other.limit().toString())
                    + " are charged to one key in one call and would share a count: expected them to be equal, or to"
                    + " differ in name, for example .named(\"burst\")");
        }
        long sum = permits + other.permits;
        return new Claim(store, name, key, sum < 0 ? Long.MAX_VALUE : sum);
    }

    static void checkNumber(int counts) {
        if (counts > MOST_CLAIMS) {
            throw new IllegalArgumentException("a verdict over " + counts + " counts is too large: expected at most "
                    + MOST_CLAIMS + ", for example 8 keys under 2 limits each");
        }
    }

    /** Returns the claim for a log, with the key encoded. */
    @Override
    public String toString() {
        return "Claim[" + name + ", permits=" + permits + ", limit=" + limit() + "]";
    }
}
