package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.http.ResolvedCharge.Refusal;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.LookupTimeout;
import io.github.spillgate.internal.Scalars;
import io.github.spillgate.internal.Time;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Resolves what a rule charges for a request: looks up the key, the limits and the cost within the timeout of the rule.
 * Whatever the functions of the user do, the result is neither empty nor an error. If limits or a cost cannot be found,
 * those of the rule apply; if the key lookup fails, no decision is possible.
 */
final class ChargeResolver {

    private final RuleMatch match;
    private final Rule rule;
    private final long start;

    private ChargeResolver(RuleMatch match, long start) {
        this.match = match;
        this.rule = match.rule();
        this.start = start;
    }

    /**
     * Resolves the charges of several rules at the same time.
     *
     * @param start when the lookups begin, as returned by {@link Time#nanos}
     */
    static Mono<List<ResolvedCharge>> resolveAll(List<RuleMatch> matches, long start) {
        List<Mono<ResolvedCharge>> resolved = new ArrayList<>(matches.size());
        for (RuleMatch match : matches) {
            resolved.add(resolve(match, start));
        }
        return Scalars.collect(resolved);
    }

    static Mono<ResolvedCharge> resolve(RuleMatch match, long start) {
        ChargeResolver resolver = new ChargeResolver(match, start);
        return resolver.findKey(resolver::resolveFor);
    }

    /** Resolves a charge for a peek: without a key it is nothing, and the cost is 1. */
    static Mono<ResolvedCharge> resolveForPeek(RuleMatch match, long start) {
        ChargeResolver resolver = new ChargeResolver(match, start);
        return resolver.findKey(resolver::peekFor);
    }

    /** Resolves the charge of one permit for a key; an error if its limits cannot be looked up. */
    static Mono<Charge> resolveForKey(Rule rule, String key) {
        ChargeResolver resolver = new ChargeResolver(NoRequest.match(rule), Time.nanos());
        return whenResolved(
                resolver.limits(key),
                limits ->
                        limits.failure == null ? Mono.just(Charge.of(key, limits.value)) : Mono.error(limits.failure));
    }

    /**
     * Continues when all lookups have ended: immediately if they have, else on the parallel scheduler, because a
     * function of the user may emit on any thread, for example on that of a Redis connection.
     */
    static <R, T> Mono<T> whenResolved(Mono<R> resolved, Function<R, Mono<T>> next) {
        return Scalars.isScalar(resolved)
                ? next.apply(Scalars.requireValue(resolved))
                : resolved.publishOn(Schedulers.parallel()).flatMap(next);
    }

    private Mono<ResolvedCharge> findKey(Function<@Nullable String, Mono<ResolvedCharge>> next) {
        try {
            if (rule.isExempt(match)) {
                return Mono.just(ResolvedCharge.nothing(match));
            }
            Mono<String> key = rule.key().find(match);
            if (Scalars.isScalar(key)) {
                return next.apply(Scalars.value(key));
            }
            return orUndecided(beforeTimeout(key.map(Optional::of).defaultIfEmpty(Optional.empty()))
                    .flatMap(found -> next.apply(found.orElse(null))));
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            return Mono.just(withoutKey(e));
        }
    }

    /** Returns the rule if the key of its request cannot be found. */
    private ResolvedCharge withoutKey(Throwable why) {
        return why instanceof KeySources.AmbiguousKeyException
                ? ResolvedCharge.refused(match, Refusal.AMBIGUOUS_KEY)
                : ResolvedCharge.undecided(match, why);
    }

    private Mono<ResolvedCharge> resolveFor(@Nullable String key) {
        if (key == null || key.isEmpty()) {
            return resolveWithoutKey();
        }
        Mono<LookupResult<List<Limit>>> limits = limits(key);
        Mono<LookupResult<Long>> cost = cost();
        return Scalars.isScalar(limits) && Scalars.isScalar(cost)
                ? Mono.just(combine(key, Scalars.requireValue(limits), Scalars.requireValue(cost)))
                : Mono.zip(limits, cost).map(found -> combine(key, found.getT1(), found.getT2()));
    }

    private ResolvedCharge combine(String key, LookupResult<List<Limit>> limits, LookupResult<Long> cost) {
        List<RuleLookupException> failures = limits.failures();
        if (!cost.failures().isEmpty()) {
            failures = new ArrayList<>(failures);
            failures.addAll(cost.failures());
        }
        return ResolvedCharge.of(match, key, limits.value, cost.value).withFailures(failures);
    }

    private Mono<ResolvedCharge> peekFor(@Nullable String key) {
        return key == null || key.isEmpty()
                ? Mono.just(ResolvedCharge.nothing(match))
                : Scalars.map(
                        limits(key),
                        limits -> ResolvedCharge.of(match, key, limits.value, 1).withFailures(limits.failures()));
    }

    /**
     * By default a rule for users skips requests that are not authenticated. It never skips an authenticated request: a
     * user cannot evade it by omitting a header.
     */
    private Mono<ResolvedCharge> resolveWithoutKey() {
        WhenMissing configured = rule.whenMissing();
        if (configured != null || !rule.isOnlyForUsers()) {
            return resolveWithoutKey(configured == null ? WhenMissing.SHARE : configured);
        }
        Mono<String> principal = match.request().principal();
        return Scalars.isScalar(principal)
                ? resolveForUsers(Scalars.value(principal) != null)
                : orUndecided(beforeTimeout(principal.hasElement()).flatMap(this::resolveForUsers));
    }

    private Mono<ResolvedCharge> resolveForUsers(boolean isAuthenticated) {
        return resolveWithoutKey(isAuthenticated ? WhenMissing.SHARE : WhenMissing.SKIP);
    }

    private Mono<ResolvedCharge> resolveWithoutKey(WhenMissing whenMissing) {
        return switch (whenMissing) {
            case SHARE ->
                Scalars.map(
                        cost(),
                        cost -> ResolvedCharge.withoutKey(match, rule.limits(), cost.value)
                                .withFailures(cost.failures()));
            case SKIP -> Mono.just(ResolvedCharge.nothing(match));
            case DENY -> Mono.just(ResolvedCharge.refused(match, Refusal.WITHOUT_KEY));
        };
    }

    private Mono<LookupResult<List<Limit>>> limits(String key) {
        Rule.LimitSource source = rule.limitSource().orElse(null);
        return source == null
                ? Mono.just(new LookupResult<>(rule.limits(), null))
                : lookUp(
                        RuleLookupException.LIMITS,
                        () -> Scalars.map(source.find(match, key), found -> limits(key, found)),
                        rule.limits());
    }

    /** Returns the limits that were found; null for none. They become part of a charge, which checks them. */
    private @Nullable List<Limit> limits(String key, Collection<Limit> found) {
        return found.isEmpty() ? null : Charge.of(key, rule.named(found)).limits();
    }

    private Mono<LookupResult<Long>> cost() {
        Rule.CostSource source = rule.costSource().orElse(null);
        return source == null
                ? Mono.just(new LookupResult<>(rule.cost(), null))
                : lookUp(RuleLookupException.COST, () -> Scalars.map(source.find(match), Checks::cost), rule.cost());
    }

    /**
     * Looks up a value; never emits an error.
     *
     * @param own the value of the rule, which applies if none is found
     */
    private <T> Mono<LookupResult<T>> lookUp(String setting, Supplier<Mono<T>> source, T own) {
        try {
            Mono<T> found = source.get();
            if (Scalars.isScalar(found)) {
                T value = Scalars.value(found);
                return Mono.just(new LookupResult<>(value == null ? own : value, null));
            }
            return LookupTimeout.apply(
                            found.defaultIfEmpty(own).map(value -> new LookupResult<>(value, null)),
                            timeLeft(),
                            Mono.fromSupplier(
                                    () -> new LookupResult<>(own, RuleLookupException.late(setting, timeoutText()))))
                    .onErrorResume(e -> Mono.just(new LookupResult<>(own, RuleLookupException.failed(setting, e))));
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            return Mono.just(new LookupResult<>(own, RuleLookupException.failed(setting, e)));
        }
    }

    private <T> Mono<T> beforeTimeout(Mono<T> found) {
        return LookupTimeout.apply(
                found,
                timeLeft(),
                Mono.error(() -> new TimeoutException(
                        "the key of rule " + rule.name() + " was not found within " + timeoutText())));
    }

    /** The lookups of key, limits and cost share the timeout of the rule. The limiter's deadline begins after them. */
    private Duration timeLeft() {
        return rule.timeout().minusNanos(Time.nanos() - start);
    }

    /** Returns the timeout and its setting, as {@code 50 ms (timeout)}. */
    private String timeoutText() {
        Duration timeout = rule.timeout();
        long millis = timeout.toMillis();
        return (millis > 0 ? millis + " ms" : timeout.toNanos() + " ns") + " (timeout)";
    }

    private Mono<ResolvedCharge> orUndecided(Mono<ResolvedCharge> resolved) {
        return resolved.onErrorResume(e -> Mono.just(withoutKey(e)));
    }

    /**
     * The result of a lookup.
     *
     * @param value the value that was found, or that of the rule
     * @param failure the reason for the value of the rule, if the lookup failed
     */
    private record LookupResult<T>(T value, @Nullable RuleLookupException failure) {

        List<RuleLookupException> failures() {
            return failure == null ? List.of() : List.of(failure);
        }
    }

    /** Stands for the request of a lookup by key alone. A lookup that reads it fails, and so finds no wrong limits. */
    private enum NoRequest implements Request {
        INSTANCE;

        static RuleMatch match(Rule rule) {
            return new RuleMatch(rule, INSTANCE, Map.of());
        }

        private static UnsupportedOperationException unknown() {
            return new UnsupportedOperationException("the lookup reads the request, and here only the key is known:"
                    + " expected a lookup by its key alone, or rules.peek(request)");
        }

        @Override
        public String method() {
            throw unknown();
        }

        @Override
        public String path() {
            throw unknown();
        }

        @Override
        public String peer() {
            throw unknown();
        }

        @Override
        public List<String> headers(String name) {
            throw unknown();
        }

        @Override
        public List<String> queryParameters(String name) {
            throw unknown();
        }

        @Override
        public List<String> cookies(String name) {
            throw unknown();
        }

        @Override
        public Map<String, String> pathVariables() {
            throw unknown();
        }

        @Override
        public Mono<String> principal() {
            throw unknown();
        }

        @Override
        public Optional<String> attribute(String name) {
            throw unknown();
        }

        @Override
        public RequestVerdicts verdicts() {
            throw unknown();
        }

        @Override
        public <T> T as(Class<T> type) {
            throw unknown();
        }
    }
}
