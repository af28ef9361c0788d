package io.github.spillgate;

import io.github.spillgate.CountName.Prefix;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Makes the claims of one limiter from charges: under their own limits, those that are looked up, or the limiter's. */
final class Claims {

    private final LimitStore store;
    private final String limiter;
    private final List<Limit> limits;
    private final List<Prefix> prefixes;
    private final @Nullable LimitLookup lookup;

    Claims(LimitStore store, String limiter, List<Limit> limits, @Nullable LimitLookup lookup) {
        this.store = store;
        this.limiter = limiter;
        this.limits = limits;
        this.prefixes = Claim.prefixes(limiter, limits);
        this.lookup = lookup;
    }

    /** Returns the claims of one charge, where nothing is looked up. */
    List<Claim> of(Charge charge) {
        return Claim.of(store, limiter, prefixes, charge);
    }

    /** Returns whether the claims of some charges are known only after a while. */
    boolean areLookedUp() {
        return lookup != null;
    }

    /**
     * Answers with what the claims lead to. What is wrong with the charges is thrown at once; what is wrong with limits
     * that were looked up is an error of the answer.
     *
     * @param charges at least one
     * @param then answers, where there are claims
     * @param denied answers, where a lookup says that the charges are to be denied
     * @param unlimited answers, where no limit applies to any of them
     */
    <T> Supplier<Mono<T>> of(
            List<Charge> charges,
            Function<List<Claim>, Mono<T>> then,
            Supplier<Mono<T>> denied,
            Supplier<Mono<T>> unlimited) {
        Set<String> unknown = keysWithoutLimits(charges);
        if (lookup == null || unknown.isEmpty()) {
            List<Claim> claims = Claim.of(store, limiter, prefixes, charges);
            return () -> then.apply(claims);
        }
        Claim.checkNumber(unknown.size());
        Mono<Map<String, LimitLookup.FoundLimits>> known = find(lookup, unknown);
        return () -> known.flatMap(found -> {
                    if (found.values().stream().anyMatch(LimitLookup.FoundLimits::isDenied)) {
                        return denied.get();
                    }
                    List<Charge> limited = under(charges, found);
                    return limited.isEmpty()
                            ? unlimited.get()
                            : then.apply(Claim.of(store, limiter, List.of(), limited));
                })
                .contextWrite(context -> context.put(
                        LimitStore.WAITING_SINCE, Schedulers.parallel().now(TimeUnit.NANOSECONDS)));
    }

    private Set<String> keysWithoutLimits(List<Charge> charges) {
        if (lookup == null) {
            return Set.of();
        }
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
            return by.find(key, limits).map(found -> Map.of(key, found));
        }
        return Flux.fromIterable(keys)
                .flatMap(key -> by.find(key, limits).map(found -> Map.entry(key, found)))
                .collectMap(Map.Entry::getKey, Map.Entry::getValue);
    }

    /** Returns the charges under what was found for their keys, without those that no limit applies to. */
    private static List<Charge> under(List<Charge> charges, Map<String, LimitLookup.FoundLimits> found) {
        List<Charge> limited = new ArrayList<>(charges.size());
        for (Charge charge : charges) {
            LimitLookup.FoundLimits forKey = found.get(charge.key());
            if (!charge.limits().isEmpty() || forKey == null) {
                limited.add(charge);
            } else if (!forKey.limits().isEmpty()) {
                limited.add(charge.under(forKey.limits()));
            }
        }
        return limited;
    }
}
