package io.github.spillgate;

import io.github.spillgate.CountName.Prefix;
import java.util.ArrayList;
import java.util.List;

/**
 * One limit of one {@link Charge}, as a {@link LimitStore} gets to see it: what is counted, under which identity, and how much
 * is asked. The claims of one verdict have identities that all differ, and none asks for more than its limit holds; for both
 * the {@link RateLimiter} has seen, once, for every store.
 */
public final class Claim {

    /** The most claims in one verdict; each is a key that one script reads and writes. */
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
     * Returns the name of the count: limiter, limit, algorithm, window and resolution or alignment, and the encoded key with
     * its group. Printable ASCII without spaces, at most 500 characters. The permits are not in it, so that they can change and the
     * history stays.
     *
     * @return the identity
     */
    public String identity() {
        return name.text();
    }

    /**
     * Returns what stands for the identity in this process, as the key of a map: equal to that of every claim with the same
     * identity and to no other, comparable with them, and made with less effort. For stores.
     *
     * @return the handle; its {@code toString()} is the identity
     */
    public Object handle() {
        return name;
    }

    /**
     * Returns who is charged.
     *
     * @return the key as the caller gave it; it is not encoded
     */
    public String key() {
        return key;
    }

    /**
     * Returns the limit that counts.
     *
     * @return the limit
     */
    public Limit limit() {
        return name.limit();
    }

    /**
     * Returns how many permits are asked for.
     *
     * @return the cost, not negative
     */
    public long permits() {
        return permits;
    }

    /**
     * Returns the same claim with another cost. For stores.
     *
     * @param permits the cost, not negative and at most the limit's permits
     * @return a claim on the same count
     */
    public Claim asking(long permits) {
        return new Claim(store, name, key, Charge.checkPermits(permits));
    }

    /** Returns whether this was made for the store to decide on. */
    boolean isFor(LimitStore other) {
        return store == other;
    }

    /** Returns the claims of one charge, each with an identity of its own. */
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

    /** Returns what the identities under each of the limits begin with. */
    static List<Prefix> prefixes(String limiter, List<Limit> limits) {
        return limits.stream().map(limit -> new Prefix(limiter, limit)).toList();
    }

    /** Returns the claims of several charges; equal ones are summed, so that every identity is there once. */
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

    /** Returns the claim for a log: with the key encoded. */
    @Override
    public String toString() {
        return "Claim[" + name + ", permits=" + permits + ", limit=" + limit() + "]";
    }
}
