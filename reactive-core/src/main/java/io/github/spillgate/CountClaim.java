package io.github.spillgate;

import io.github.spillgate.CountName.Prefix;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Keys;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import io.github.spillgate.internal.holding.HeldClaim;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** A claim that a limiter creates for its store. It is bounded in memory: ledgers, leases and queues keep it. */
final class CountClaim implements HeldClaim {

    private static final String HAS_ID = "a claim that holds permits has an id";

    /** A charge that no other limit is in. */
    private static final int ALONE = -1;

    private final LimitStore store;
    private final CountName name;
    private final String key;
    private final long permits;
    private final int charge;
    private final @Nullable HoldId hold;

    private CountClaim(LimitStore store, CountName name, String key, long permits, int charge, @Nullable HoldId hold) {
        this.store = store;
        this.name = name;
        this.key = key;
        this.permits = permits;
        this.charge = charge;
        this.hold = hold;
    }

    @Override
    public String identity() {
        return name.text();
    }

    @Override
    public Object handle() {
        return name;
    }

    @Override
    public String limiter() {
        return name.limiter();
    }

    @Override
    public String key() {
        return key;
    }

    @Override
    public Limit limit() {
        return name.limit();
    }

    @Override
    public long permits() {
        return permits;
    }

    @Override
    public int charge() {
        return charge;
    }

    @Override
    public CountClaim withPermits(long permits) {
        return new CountClaim(store, name, key, Checks.permits(permits), charge, hold);
    }

    @Override
    public @Nullable UUID holdId() {
        return hold == null ? null : hold.id;
    }

    @Override
    public CountClaim withHoldId(UUID id) {
        return new CountClaim(store, name, key, permits, charge, new HoldId(id, Time.nanos()));
    }

    /** Returns a claim with the same key under another limit, which holds nothing. */
    CountClaim under(Prefix limit) {
        return under(limit, permits);
    }

    private CountClaim under(Prefix limit, long cost) {
        return claim(store, name.under(limit), key, cost, charge);
    }

    @Override
    public long heldSince() {
        return Objects.requireNonNull(hold, HAS_ID).since;
    }

    @Override
    public void noteRelease() {
        Objects.requireNonNull(hold, HAS_ID).isReleased = true;
    }

    @Override
    public boolean isReleased() {
        return Objects.requireNonNull(hold, HAS_ID).isReleased;
    }

    /** Returns whether this claim was created for that store. */
    boolean isFor(LimitStore other) {
        return store == other;
    }

    /** Returns the claims of one charge, each with a different identity. */
    static List<Claim> of(LimitStore store, String limiter, List<Prefix> defaults, Charge charge) {
        return of(store, limiter, defaults, charge, 0);
    }

    private static List<Claim> of(LimitStore store, String limiter, List<Prefix> defaults, Charge charge, int number) {
        List<Prefix> limits = charge.limits().isEmpty() ? defaults : prefixes(limiter, charge.limits());
        if (limits.isEmpty()) {
            throw new IllegalArgumentException("neither the charge nor limiter " + limiter
                    + " has a limit: expected one of them to have, for example"
                    + " Charge.of(\"user:42\", Limit.perMinute(120))");
        }
        String encoded = charge.encodedKey();
        String key = Keys.bounded(charge.key(), encoded);
        String group = charge.encodedGroup();
        if (limits.size() == 1) {
            CountName name = new CountName(limits.get(0), encoded, group);
            return List.of(claim(store, name, key, charge.permits(), number));
        }
        List<Claim> claims = new ArrayList<>(limits.size());
        for (Prefix limit : limits) {
            claims.add(claim(store, new CountName(limit, encoded, group), key, charge.permits(), number));
        }
        return claims;
    }

    /** Returns claims with the key of a given one, under other limits. */
    static List<Claim> under(List<Prefix> limits, Claim claim, long permits) {
        return limits.stream()
                .<Claim>map(limit -> ((CountClaim) claim).under(limit, permits))
                .toList();
    }

    private static CountClaim claim(LimitStore store, CountName name, String key, long permits, int charge) {
        return new CountClaim(store, name, key, name.limit().takesPermits() ? permits : 0, charge, null);
    }

    /** Returns the prefix of the identities for each limit. */
    static List<Prefix> prefixes(String limiter, List<Limit> limits) {
        // Most decisions are under one limit, and need no stream.
        return limits.size() == 1
                ? List.of(limits.get(0).prefix(limiter))
                : limits.stream().map(limit -> limit.prefix(limiter)).toList();
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
        List<CountClaim> claims = new ArrayList<>();
        for (int number = 0; number < charges.size(); number++) {
            for (Claim claim : of(store, limiter, defaults, charges.get(number), number)) {
                add(claims, (CountClaim) claim);
            }
            checkNumber(claims.size());
        }
        return List.copyOf(claims);
    }

    @Override
    public CountClaim withoutStrikes() {
        return inCharge(ALONE);
    }

    private CountClaim inCharge(int number) {
        return number == charge ? this : new CountClaim(store, name, key, permits, number, hold);
    }

    private static void add(List<CountClaim> claims, CountClaim claim) {
        for (int i = 0; i < claims.size(); i++) {
            CountClaim earlier = claims.get(i);
            if (earlier.name.equals(claim.name)) {
                claims.set(i, earlier.plus(claim));
                // Charges with a limit on one count are one for a ban.
                claims.replaceAll(one -> one.charge == earlier.charge ? one.inCharge(claim.charge) : one);
                return;
            }
        }
        claims.add(claim);
    }

    private CountClaim plus(CountClaim other) {
        if (!limit().equals(other.limit())) {
            throw new IllegalArgumentException("limits " + Text.quote(limit().toString()) + " and "
                    + Text.quote(other.limit().toString())
                    + " are charged to one key in one call and would share a count: expected them to be equal, or to"
                    + " differ in name, for example .named(\"burst\")");
        }
        long sum = permits + other.permits;
        return new CountClaim(store, name, key, sum < 0 ? Long.MAX_VALUE : sum, charge, null);
    }

    static void checkNumber(int counts) {
        if (counts > Bounds.MOST_CLAIMS) {
            throw new IllegalArgumentException(
                    "a verdict over more than " + Bounds.MOST_CLAIMS + " counts is too large: expected at most "
                            + Bounds.MOST_CLAIMS + ", for example 8 keys under 2 limits each");
        }
    }

    /** The id under which a claim holds permits. */
    private static final class HoldId {

        private final UUID id;

        /** When the claim got it. */
        private final long since;

        private volatile boolean isReleased;

        HoldId(UUID id, long since) {
            this.id = id;
            this.since = since;
        }
    }

    /** Returns the claim for log messages, with the key encoded. */
    @Override
    public String toString() {
        return "Claim[" + name + ", permits=" + permits + ", limit=" + limit() + "]";
    }
}
