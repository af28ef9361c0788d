package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenMissing;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Finds what a rule asks for on behalf of a request: the key, the limits and the cost, within the rule's
 * {@link LookupTime}. Whatever the user's functions do, the answer is neither empty nor an error. Limits and costs that
 * cannot be found are the rule's own; without a key nothing can be decided.
 */
final class Lookup {

    /** Reactor's name for what takes the errors that no subscriber waits for. Its constant is not public. */
    private static final String ON_ERROR_DROPPED = "reactor.onErrorDropped.local";

    private final Match match;
    private final Rule rule;
    private final LookupTime time;

    private Lookup(Match match, Duration most) {
        this.match = match;
        this.rule = match.rule();
        this.time = LookupTime.of(rule, most);
    }

    /**
     * Finds all that is charged.
     *
     * @param most how long it takes at most, as {@link LookupTime#most} says
     */
    static Mono<Demand> ask(Match match, Duration most) {
        Lookup lookup = new Lookup(match, most);
        return lookup.whenKeyIsFound(lookup::demand);
    }

    /**
     * The same for a look at what has been used: a request without a key asks for nothing, and the cost does not
     * matter.
     */
    static Mono<Demand> look(Match match, Duration most) {
        Lookup lookup = new Lookup(match, most);
        return lookup.whenKeyIsFound(lookup::looked);
    }

    private Mono<Demand> whenKeyIsFound(Function<@Nullable String, Mono<Demand>> next) {
        try {
            if (rule.isExcepted(match)) {
                return Mono.just(Demand.nothing(match));
            }
            Mono<String> key = rule.key().find(match);
            if (AtOnce.is(key)) {
                return next.apply(AtOnce.get(key));
            }
            return orUndecided(inTime(key.map(Optional::of).defaultIfEmpty(Optional.empty()))
                    .flatMap(found -> next.apply(found.orElse(null))));
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            return Mono.just(Demand.undecided(match, e));
        }
    }

    private <T> Mono<T> inTime(Mono<T> found) {
        return silenced(found).timeout(time.left(), Mono.error(this::late), Schedulers.parallel());
    }

    private TimeoutException late() {
        return new TimeoutException("the key of rule " + rule.name() + " was not found within " + time);
    }

    private Mono<Demand> orUndecided(Mono<Demand> demand) {
        return demand.onErrorResume(e -> Mono.just(Demand.undecided(match, e)));
    }

    /** A source that fails after it was given up would else log an error for each such request. */
    private static <T> Mono<T> silenced(Mono<T> source) {
        Consumer<Throwable> ignore = Lookup::ignore;
        return source.contextWrite(context -> context.put(ON_ERROR_DROPPED, ignore));
    }

    private static void ignore(Throwable late) {
        // The timeout has been reported.
    }

    private Mono<Demand> demand(@Nullable String key) {
        return key == null || key.isEmpty() ? withoutKey() : charge(key);
    }

    /**
     * A rule for users skips requests that are not authenticated, unless its author says otherwise; a user cannot leave
     * it by omitting a header.
     */
    private Mono<Demand> withoutKey() {
        WhenMissing chosen = rule.whenMissing();
        if (chosen != null || !rule.isOnlyForUsers()) {
            return withoutKey(chosen == null ? WhenMissing.SHARE : chosen);
        }
        Mono<String> principal = match.request().principal();
        return AtOnce.is(principal)
                ? withoutKey(AtOnce.get(principal) != null)
                : orUndecided(inTime(principal.hasElement()).flatMap(this::withoutKey));
    }

    private Mono<Demand> withoutKey(boolean isAuthenticated) {
        return withoutKey(isAuthenticated ? WhenMissing.SHARE : WhenMissing.SKIP);
    }

    private Mono<Demand> withoutKey(WhenMissing whenMissing) {
        return switch (whenMissing) {
            case SHARE ->
                AtOnce.map(
                        cost(),
                        cost -> Demand.chargeNobody(match, rule.limits(), cost.value)
                                .after(cost.failures()));
            case SKIP -> Mono.just(Demand.nothing(match));
            case DENY -> Mono.just(Demand.refusal(match));
        };
    }

    private Mono<Demand> charge(String key) {
        Mono<LookupResult<List<Limit>>> limits = limits(key);
        Mono<LookupResult<Long>> cost = cost();
        return AtOnce.is(limits) && AtOnce.is(cost)
                ? Mono.just(charge(
                        key, Objects.requireNonNull(AtOnce.get(limits)), Objects.requireNonNull(AtOnce.get(cost))))
                : Mono.zip(limits, cost).map(found -> charge(key, found.getT1(), found.getT2()));
    }

    private Demand charge(String key, LookupResult<List<Limit>> limits, LookupResult<Long> cost) {
        List<RuleLookupException> failures = limits.failures();
        if (!cost.failures().isEmpty()) {
            failures = new ArrayList<>(failures);
            failures.addAll(cost.failures());
        }
        return Demand.charge(match, key, limits.value, cost.value).after(failures);
    }

    private Mono<Demand> looked(@Nullable String key) {
        return key == null || key.isEmpty()
                ? Mono.just(Demand.nothing(match))
                : AtOnce.map(
                        limits(key),
                        limits -> Demand.charge(match, key, limits.value, 1).after(limits.failures()));
    }

    private Mono<LookupResult<List<Limit>>> limits(String key) {
        Rule.LimitSource source = rule.limitSource().orElse(null);
        return source == null
                ? Mono.just(new LookupResult<>(rule.limits(), null))
                : find(
                        RuleLookupException.LIMITS,
                        () -> AtOnce.map(
                                source.find(match, key),
                                some -> some.isEmpty()
                                        ? null
                                        : Charge.of(key, rule.named(some)).limits()),
                        rule.limits());
    }

    private Mono<LookupResult<Long>> cost() {
        Rule.CostSource source = rule.costSource().orElse(null);
        return source == null
                ? Mono.just(new LookupResult<>(rule.cost(), null))
                : find(RuleLookupException.COST, () -> AtOnce.map(source.find(match), Lookup::checkCost), rule.cost());
    }

    private static Long checkCost(Long cost) {
        if (cost < 0) {
            throw new IllegalArgumentException("cost " + cost + " is negative: expected 0 or more, for example 5");
        }
        return cost;
    }

    /**
     * Finds a value, or takes the rule's own; never an error.
     *
     * @param own the rule's own
     */
    private <T> Mono<LookupResult<T>> find(String setting, Supplier<Mono<T>> source, T own) {
        try {
            Mono<T> found = source.get();
            if (AtOnce.is(found)) {
                return Mono.just(new LookupResult<>(Objects.requireNonNullElse(AtOnce.get(found), own), null));
            }
            return silenced(found)
                    .defaultIfEmpty(own)
                    .map(value -> new LookupResult<>(value, null))
                    .timeout(
                            time.left(),
                            Mono.fromSupplier(() -> new LookupResult<>(own, RuleLookupException.late(setting, time))),
                            Schedulers.parallel())
                    .onErrorResume(e -> Mono.just(new LookupResult<>(own, RuleLookupException.failed(setting, e))));
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            return Mono.just(new LookupResult<>(own, RuleLookupException.failed(setting, e)));
        }
    }

    /**
     * A value that holds.
     *
     * @param value what was found, or the rule's own
     * @param failure why it is the rule's own, if the lookup failed
     */
    private record LookupResult<T>(T value, @Nullable RuleLookupException failure) {

        List<RuleLookupException> failures() {
            return failure == null ? List.of() : List.of(failure);
        }
    }
}
