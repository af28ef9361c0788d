package io.github.spillgate;

import io.github.spillgate.CountName.Prefix;
import io.github.spillgate.fleet.Publication;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.waiting.WaitQueues;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * Creates the claims of one limiter from charges, under the charges' own limits, looked-up limits or the limiter's,
 * which can be replaced. Thread-safe.
 */
final class Claims {

    private static final Logger LOG = Loggers.getLogger(RateLimiter.class);

    private final LimitStore store;
    private final String limiter;
    private final @Nullable LimitLookup lookup;

    /** The limits that the limiter was created with. */
    private final LimitSet first;

    /** One reference, so that a decision falls under the old limits or under the new ones. */
    private volatile LimitSet current;

    // Guarded by this.
    private List<Limit> configured;
    private @Nullable Publication published;

    Claims(LimitStore store, String limiter, List<Limit> limits, @Nullable LimitLookup lookup) {
        this.store = store;
        this.limiter = limiter;
        this.first = limitSet(limits);
        this.current = first;
        this.configured = limits;
        this.lookup = lookup;
    }

    /** Returns whether a limiter of this store has created a claim. */
    boolean isOfStore(Claim claim) {
        return claim instanceof CountClaim ours && ours.isFor(store);
    }

    // The limits of the limiter.

    private LimitSet limitSet(List<Limit> limits) {
        return new LimitSet(limits, CountClaim.prefixes(limiter, limits));
    }

    /** Returns the limits of the limiter. */
    List<Limit> limits() {
        return current.limits;
    }

    /** Replaces the limits that apply unless others are published. */
    synchronized void replace(List<Limit> limits) {
        configured = limits;
        if (published == null) {
            current = limitSet(limits);
        }
    }

    /** Applies published limits, or the configured ones again; keeps the present ones if those cannot be applied. */
    synchronized void publish(@Nullable Publication value) {
        List<Limit> before = current.limits;
        List<Limit> next = value == null ? configured : value.limits();
        try {
            current = limitSet(Charge.distinct(next));
        } catch (IllegalArgumentException e) {
            LOG.warn(
                    "Limiter {} keeps {}, because {} cannot be applied: {}",
                    limiter,
                    before,
                    value,
                    Text.line(e.getMessage()));
            return;
        }
        published = value;
        if (!next.equals(before)) {
            LOG.info(
                    "Limiter {} is limited to {} instead of {}",
                    limiter,
                    value == null ? "its configured " + next : "published " + value,
                    before);
        }
    }

    /** Returns the current limits, to find out later whether they were replaced; null if a charge has its own. */
    @Nullable
    LimitSet limitsOf(Charge charge) {
        return charge.limits().isEmpty() ? current : null;
    }

    // Claims without a lookup.

    /** Returns the claims of a charge that needs no lookup. */
    List<Claim> of(Charge charge) {
        return CountClaim.of(store, limiter, current.prefixes, charge);
    }

    /** Returns the claims of charges that need no lookup. */
    List<Claim> of(List<Charge> charges) {
        return CountClaim.of(store, limiter, current.prefixes, charges);
    }

    /** Returns the claims of charges that need no lookup, now and after each replacement of the limits. */
    ChargedClaims following(List<Charge> charges) {
        return new ChargedClaims(this, charges);
    }

    /**
     * Returns the claims of a charge under the current limits: known ones, unless the limits were replaced since.
     *
     * @param known the claims that {@link #of(Charge)} has returned for the charge
     * @param under what {@link #limitsOf} has returned for it before that
     * @param permits the cost of the charge
     */
    List<Claim> underCurrentLimits(List<Claim> known, @Nullable LimitSet under, long permits) {
        LimitSet now = current;
        return under == null || under == now ? known : CountClaim.under(now.prefixes, known.get(0), permits);
    }

    /**
     * Returns the claims that the same charges have under the current limits, with any permits. Charges with limits of
     * their own count as charges without.
     *
     * @param made claims of earlier charges
     * @return the same list if the limits were not replaced, or these are the claims under the current ones
     */
    List<Claim> renewed(List<Claim> made) {
        LimitSet under = current;
        if (under == first) {
            return made;
        }
        List<CountClaim> renewed = new ArrayList<>();
        Set<Object> known = new HashSet<>();
        for (Claim claim : made) {
            for (Prefix limit : under.prefixes) {
                // A store of the user's own may have replaced the claim.
                CountClaim now = claim instanceof CountClaim ours ? ours.under(limit) : null;
                if (now != null && known.add(now.handle())) {
                    renewed.add(now);
                }
            }
        }
        return WaitQueues.name(renewed).equals(WaitQueues.name(made)) ? made : List.copyOf(renewed);
    }

    // Claims with a lookup.

    /** Returns whether there is a lookup, which applies to charges without limits of their own. */
    boolean hasLookup() {
        return lookup != null;
    }

    /** Returns whether the limits of any of these charges must be looked up. */
    boolean needLookup(List<Charge> charges) {
        return lookup != null && !keysWithoutLimits(charges).isEmpty();
    }

    /**
     * Looks up the limits of charges that {@linkplain #needLookup need} it. Signals an error if the limits that were
     * found cannot be combined.
     *
     * @throws IllegalArgumentException if there are too many keys to look up
     */
    Mono<FoundClaims> lookUp(List<Charge> charges) {
        Set<String> keys = keysWithoutLimits(charges);
        CountClaim.checkNumber(keys.size());
        return find(Objects.requireNonNull(lookup, "lookup"), keys).map(found -> {
            if (found.values().stream().anyMatch(LimitLookup.FoundLimits::isDenied)) {
                return new FoundClaims(List.of(), true);
            }
            List<Charge> limited = withLimits(charges, found);
            return new FoundClaims(
                    limited.isEmpty() ? List.of() : CountClaim.of(store, limiter, List.of(), limited), false);
        });
    }

    private Set<String> keysWithoutLimits(List<Charge> charges) {
        Set<String> keys = new LinkedHashSet<>();
        for (Charge charge : charges) {
            if (charge.limits().isEmpty()) {
                keys.add(charge.key());
            }
        }
        return keys;
    }

    private Mono<Map<String, LimitLookup.FoundLimits>> find(LimitLookup by, Set<String> keys) {
        if (keys.size() == 1) {
            String key = keys.iterator().next();
            return by.find(key, this::limits).map(found -> Map.of(key, found));
        }
        return Flux.fromIterable(keys)
                .flatMap(key -> by.find(key, this::limits).map(found -> Map.entry(key, found)))
                .collectMap(Map.Entry::getKey, Map.Entry::getValue);
    }

    /** Returns the charges with the limits that were found, without those that no limit applies to. */
    private static List<Charge> withLimits(List<Charge> charges, Map<String, LimitLookup.FoundLimits> found) {
        List<Charge> limited = new ArrayList<>(charges.size());
        for (Charge charge : charges) {
            LimitLookup.FoundLimits forKey = found.get(charge.key());
            if (!charge.limits().isEmpty() || forKey == null) {
                limited.add(charge);
            } else if (!forKey.limits().isEmpty()) {
                limited.add(charge.withLimits(forKey.limits()));
            }
        }
        return limited;
    }

    /** The limits of a limiter, with the prefixes of their identities. Compared by reference. */
    static final class LimitSet {

        private final List<Limit> limits;
        private final List<Prefix> prefixes;

        private LimitSet(List<Limit> limits, List<Prefix> prefixes) {
            this.limits = limits;
            this.prefixes = prefixes;
        }
    }

    /** The claims of charges under the current limits. Thread-safe. */
    static final class ChargedClaims {

        private final Claims claims;
        private final List<Charge> charges;
        private volatile ClaimsUnderLimits latest;

        private ChargedClaims(Claims claims, List<Charge> charges) {
            this.claims = claims;
            this.charges = charges;
            this.latest = create(claims.current);
        }

        /**
         * Returns the claims; the same list until the limits are replaced.
         *
         * @throws IllegalArgumentException if the charges cannot be combined under the limits
         */
        List<Claim> current() {
            ClaimsUnderLimits known = latest;
            LimitSet under = claims.current;
            if (known.under != under) {
                known = create(under);
                latest = known;
            }
            return known.claims;
        }

        private ClaimsUnderLimits create(LimitSet under) {
            return new ClaimsUnderLimits(under, CountClaim.of(claims.store, claims.limiter, under.prefixes, charges));
        }
    }

    private record ClaimsUnderLimits(LimitSet under, List<Claim> claims) {}

    /** The result of a lookup for several charges. Without claims, all charges are denied, or none has a limit. */
    record FoundClaims(List<Claim> claims, boolean isDenied) {

        boolean isUnlimited() {
            return !isDenied && claims.isEmpty();
        }
    }
}
