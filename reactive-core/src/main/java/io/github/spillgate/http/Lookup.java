package io.github.spillgate.http;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenMissing;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Finds what a rule asks for on behalf of a request: the key, the limits and the cost, in time. Whatever the user's functions do,
 * the answer is neither empty nor an error.
 */
final class Lookup {

    private Lookup() {}

    static Mono<Demand> ask(Match match) {
        return inTime(match, key -> ask(match, key));
    }

    /** The same for a look at what has been used: it asks about nobody who has no key, and about no cost. */
    static Mono<Demand> look(Match match) {
        return inTime(match, key -> look(match, key));
    }

    private static Mono<Demand> inTime(Match match, Function<@Nullable String, Mono<Demand>> ask) {
        try {
            if (match.rule().isExcepted(match)) {
                return Mono.just(Demand.nothing(match));
            }
            Mono<Demand> demand = whenFound(match.rule().key().find(match), ask);
            if (AtOnce.is(demand)) {
                return Mono.just(Objects.requireNonNull(AtOnce.get(demand)));
            }
            return demand.timeout(match.rule().timeout(), Mono.error(() -> late(match)), Schedulers.parallel())
                    .onErrorResume(e -> Mono.just(Demand.undecided(match, e)));
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            return Mono.just(Demand.undecided(match, e));
        }
    }

    private static TimeoutException late(Match match) {
        return new TimeoutException("key, cost and limits of rule "
                + match.rule().name() + " were not found within " + match.rule().timeout());
    }

    private static Mono<Demand> whenFound(Mono<String> key, Function<@Nullable String, Mono<Demand>> ask) {
        if (AtOnce.is(key)) {
            return ask.apply(AtOnce.get(key));
        }
        return key.map(Optional::of).defaultIfEmpty(Optional.empty()).flatMap(found -> ask.apply(found.orElse(null)));
    }

    private static Mono<Demand> ask(Match match, @Nullable String key) {
        Rule rule = match.rule();
        boolean isMissing = key == null || key.isEmpty();
        if (isMissing && rule.whenMissing() != WhenMissing.SHARE) {
            boolean skips = rule.whenMissing() == WhenMissing.SKIP;
            return Mono.just(skips ? Demand.nothing(match) : Demand.refusal(match));
        }
        Mono<List<Limit>> limits = isMissing ? Mono.just(rule.limits()) : limits(match, Objects.requireNonNull(key));
        Mono<Long> cost = rule.costSource()
                .map(source -> orElse(source.find(match), rule.cost()))
                .orElseGet(() -> Mono.just(rule.cost()));
        if (AtOnce.is(limits) && AtOnce.is(cost)) {
            return Mono.just(demand(
                    match,
                    key,
                    isMissing,
                    Objects.requireNonNull(AtOnce.get(limits)),
                    Objects.requireNonNull(AtOnce.get(cost))));
        }
        return Mono.zip(limits, cost).map(found -> demand(match, key, isMissing, found.getT1(), found.getT2()));
    }

    private static Mono<Demand> look(Match match, @Nullable String key) {
        return key == null || key.isEmpty()
                ? Mono.just(Demand.nothing(match))
                : AtOnce.map(limits(match, key), limits -> Demand.charge(match, key, limits, 1));
    }

    private static Mono<List<Limit>> limits(Match match, String key) {
        Rule rule = match.rule();
        return rule.limitSource()
                .map(source -> orElse(
                        AtOnce.map(source.find(match, key), some -> some.isEmpty() ? null : rule.named(some)),
                        rule.limits()))
                .orElseGet(() -> Mono.just(rule.limits()));
    }

    private static <T> Mono<T> orElse(Mono<T> mono, T otherwise) {
        return AtOnce.is(mono)
                ? Mono.just(Objects.requireNonNullElse(AtOnce.get(mono), otherwise))
                : mono.defaultIfEmpty(otherwise);
    }

    private static Demand demand(Match match, @Nullable String key, boolean isMissing, List<Limit> limits, long cost) {
        return isMissing || key == null
                ? Demand.chargeNobody(match, limits, cost)
                : Demand.charge(match, key, limits, cost);
    }
}
