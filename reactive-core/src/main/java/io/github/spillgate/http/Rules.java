package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.PathSyntax.PathMatcher;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenUndecided;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.context.ContextView;

/**
 * The rules of a service. An adapter applies them once for each phase of each request.
 *
 * <p>Rules can be replaced while the service runs: each phase of a request falls either under the old rules or under
 * the new ones. Counts are kept as described in {@link Rule}. Thread-safe.
 */
public final class Rules {

    private static final Logger LOG = Loggers.getLogger(Rules.class);
    private static final Mono<Verdict> NONE = Mono.just(Verdict.none());

    private final RateLimiter limiter;
    private final PathSyntax syntax;
    private final RuleListener listener;
    private final Duration lookupTime;
    private final boolean isOff;
    private volatile InForce inForce;

    private Rules(RateLimiter limiter, PathSyntax syntax, RuleListener listener, boolean isOff, InForce inForce) {
        this.limiter = limiter;
        this.syntax = syntax;
        this.listener = listener;
        this.lookupTime = LookupTime.most(limiter);
        this.isOff = isOff;
        this.inForce = inForce;
    }

    /**
     * Returns rules without a listener.
     *
     * @param limiter the limiter, which the caller closes
     * @param syntax the syntax of the paths
     * @param rules the rules; their order is the order of limits in header fields
     * @return the rules
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, or a path is invalid
     */
    public static Rules of(RateLimiter limiter, PathSyntax syntax, Collection<Rule> rules) {
        return of(limiter, syntax, rules, (match, outcome, decision, took) -> {});
    }

    /**
     * Returns rules with a listener.
     *
     * @param limiter the limiter, which the caller closes
     * @param syntax the syntax of the paths
     * @param rules the rules; their order is the order of limits in header fields
     * @param listener the listener of decisions
     * @return the rules
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, or a path is invalid
     */
    public static Rules of(RateLimiter limiter, PathSyntax syntax, Collection<Rule> rules, RuleListener listener) {
        Objects.requireNonNull(
                limiter, "limiter is null: expected one, for example RateLimiter.builder(\"api\")...build()");
        Objects.requireNonNull(syntax, "syntax is null: expected how paths are written");
        Objects.requireNonNull(listener, "listener is null: expected one");
        InForce first = InForce.of(rules, syntax);
        warn(first.shared());
        return new Rules(limiter, syntax, listener, false, first);
    }

    /**
     * Returns rules that allow every request, for a service with a disabled limiter. The list is empty at first;
     * rules that {@link #replace} sets are checked and listed, and limit nothing.
     *
     * @param limiter the limiter for {@link #peek(String, String)} and {@link #reset}, which the caller closes
     * @param syntax the syntax of the paths
     * @return the rules
     */
    public static Rules off(RateLimiter limiter, PathSyntax syntax) {
        return new Rules(
                Objects.requireNonNull(limiter, "limiter is null: expected one"),
                Objects.requireNonNull(syntax, "syntax is null: expected how paths are written"),
                (match, outcome, decision, took) -> {},
                true,
                InForce.of(List.of(), syntax));
    }

    /**
     * Replaces all rules; if one of them is invalid, none is replaced.
     *
     * @param rules the new rules
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, or a path is invalid
     */
    public void replace(Collection<Rule> rules) {
        InForce next = InForce.of(rules, syntax);
        Set<String> shared = new TreeSet<>(next.shared());
        shared.removeAll(inForce.shared());
        warn(shared);
        inForce = next;
    }

    private static void warn(Set<String> shared) {
        for (String rule : shared) {
            LOG.warn(
                    "rule {}: requests without a key share one count on every path, login included: expected paths or"
                            + " exclude-paths that leave some out, or when-missing: skip",
                    rule);
        }
    }

    /**
     * Returns the current rules.
     *
     * @return the rules, in order
     */
    public List<Rule> list() {
        return inForce.entries.stream().map(RuleEntry::rule).toList();
    }

    /**
     * Decides on a request. All rules of the phase that match it, and have not been applied to it before, are one
     * atomic decision.
     *
     * @param request the request
     * @param phase the phase
     * @return the verdict; never empty and never an error; emitted on the subscribing thread, on the thread on which
     *     the limiter emits, or on {@code Schedulers.parallel()}
     */
    public Mono<Verdict> decide(Request request, Phase phase) {
        return decideOn(
                request,
                Objects.requireNonNull(phase, "phase is null: expected one, for example AFTER_AUTHENTICATION"));
    }

    /**
     * Decides on a request after authentication. All rules of both phases that match it are one atomic decision.
     *
     * @param request the request
     * @return the verdict, as for {@link #decide(Request, Phase)}
     */
    public Mono<Verdict> decide(Request request) {
        return decideOn(request, null);
    }

    /**
     * Returns how much of a rule's limits a key has used; charges nothing. The limits are those of the rule itself;
     * none are looked up.
     *
     * @param rule the name of the rule
     * @param key the key, as the key source of the rule finds it
     * @return the decision that an attempt would get; empty if there is no such rule
     */
    public Mono<Decision> peek(String rule, String key) {
        return named(rule).flatMap(found -> limiter.peek(Charge.of(key, found.limits())));
    }

    /**
     * Returns how much of the limits of each rule the client of a request has used, for example to display it; charges
     * nothing.
     *
     * <p>Keys and limits are looked up as for a decision on the request. The paths and methods of the rules are
     * ignored. Not included are shadow rules, rules that exempt the request, and rules that find no key on it.
     *
     * @param request the request
     * @return the decision that one permit of each rule would get, emitted where the request is handled; empty if no
     *     rule is included; an error if a key or limits cannot be looked up
     */
    public Mono<Decision> peek(Request request) {
        return Mono.defer(() -> {
            List<Mono<Demand>> lookups = list().stream()
                    .filter(rule -> !rule.isShadow())
                    .map(rule -> Lookup.look(new Match(rule, request, request.pathVariables()), lookupTime))
                    .toList();
            return request.atHome(whenFound(lookups, () -> {}, now(), this::peek));
        });
    }

    private Mono<Decision> peek(List<Demand> all) {
        List<Charge> charges = new ArrayList<>(all.size());
        for (Demand demand : all) {
            if (demand.why() != null) {
                return Mono.error(demand.why());
            }
            if (demand.charge() != null) {
                charges.add(demand.charge());
            }
        }
        return charges.isEmpty() ? Mono.empty() : Peek.at(limiter, charges);
    }

    /**
     * Deletes the counts of a key under the limits of a rule.
     *
     * @param rule the name of the rule
     * @param key the key, as the key source of the rule finds it
     * @return completes when the counts are deleted, or if there is no such rule
     */
    public Mono<Void> reset(String rule, String key) {
        return named(rule).flatMap(found -> limiter.reset(Charge.of(key, found.limits())));
    }

    private Mono<Rule> named(String rule) {
        return Mono.fromSupplier(() ->
                        list().stream().filter(one -> one.name().equals(rule)).findFirst())
                .flatMap(Mono::justOrEmpty);
    }

    private Mono<Verdict> decideOn(Request request, @Nullable Phase phase) {
        if (isOff) {
            return NONE;
        }
        return Mono.deferContextual(context -> {
            List<Match> enforced;
            List<Match> shadows;
            try {
                InForce now = inForce;
                List<Match> matches = now.matches(request, phase);
                if (matches.isEmpty()) {
                    Verdict before = now.denial(request, phase);
                    return before == null ? NONE : Mono.just(before);
                }
                shadows = matches.stream()
                        .filter(match -> match.rule().isShadow())
                        .toList();
                enforced = shadows.isEmpty()
                        ? matches
                        : matches.stream()
                                .filter(match -> !match.rule().isShadow())
                                .toList();
            } catch (RuntimeException e) {
                // A pattern cannot be matched, so the rules are unknown: deny.
                LOG.warn("Rules could not be matched to a request: {}", Quoted.text(e.toString()));
                return Mono.just(Verdict.refusal(Problem.undecided()));
            }
            Trials trials = Trials.of(limiter, lookupTime, shadows, listener, context);
            AtomicBoolean heard = new AtomicBoolean();
            return decide(enforced, trials, context)
                    .doOnNext(verdict -> {
                        trials.end();
                        if (!verdict.isAllowed()) {
                            enforced.forEach(match -> request.verdicts().denied(match.rule(), verdict));
                        }
                        heard.set(true);
                    })
                    .doOnCancel(() -> {
                        if (!heard.get()) {
                            trials.end();
                            forget(request, enforced);
                            forget(request, shadows);
                        }
                    });
        });
    }

    /** A caller that cancels before the verdict may subscribe again. */
    private static void forget(Request request, List<Match> matches) {
        matches.forEach(match -> request.verdicts().forget(match.rule()));
    }

    private Mono<Verdict> decide(List<Match> enforced, Trials trials, ContextView context) {
        if (enforced.isEmpty()) {
            trials.lookUp();
            return Mono.just(Verdict.withoutDecision(trials.charge()));
        }
        return Listeners.watched(listener, enforced, context, hearing -> decide(enforced, trials, hearing));
    }

    private Mono<Verdict> decide(List<Match> enforced, Trials trials, RuleListener hearing) {
        long since = now();
        return whenFound(
                enforced.stream().map(match -> Lookup.ask(match, lookupTime)).toList(),
                trials::lookUp,
                since,
                demands -> {
                    demands.forEach(demand -> Listeners.lookupsFailed(hearing, demand));
                    return decide(demands, trials, since, hearing);
                });
    }

    /** Continues when all lookups have ended; runs the other task at once, on the subscribing thread. */
    private static <T> Mono<T> whenFound(
            List<Mono<Demand>> lookups, Runnable meanwhile, long since, Function<List<Demand>, Mono<T>> next) {
        Mono<List<Demand>> all = AtOnce.all(lookups);
        if (AtOnce.is(all)) {
            meanwhile.run();
            return next.apply(Objects.requireNonNull(AtOnce.get(all)));
        }
        // A user's function may emit on any thread, for example on that of a Redis connection.
        return all.zipWith(Mono.fromRunnable(meanwhile).thenReturn(true), (demands, done) -> demands)
                .publishOn(Schedulers.parallel())
                .flatMap(demands ->
                        next.apply(demands).contextWrite(context -> context.put(LimitStore.WAITING_SINCE, since)));
    }

    private Mono<Verdict> decide(List<Demand> all, Trials trials, long since, RuleListener hearing) {
        List<Demand> charging = new ArrayList<>(all.size());
        List<Limit> refused = new ArrayList<>(0);
        boolean isDenied = false;
        for (Demand demand : all) {
            Throwable why = demand.why();
            if (why != null) {
                Listeners.tell(() -> hearing.undecided(demand.match(), why));
                isDenied |= demand.rule().whenUndecided() == WhenUndecided.DENY;
            } else if (demand.isRefused()) {
                Listeners.tell(() -> hearing.refused(demand.match()));
                refused.addAll(demand.rule().limits());
            } else if (demand.charge() != null) {
                charging.add(demand);
            }
        }
        if (isDenied) {
            return Mono.just(Verdict.refusal(Problem.undecided()));
        }
        if (!refused.isEmpty()) {
            return Mono.just(Verdict.refusal(Problem.withoutKey(refused)));
        }
        return charging.isEmpty()
                ? Mono.just(Verdict.withoutDecision(trials.charge()))
                : charge(charging, trials, since, hearing);
    }

    private Mono<Verdict> charge(List<Demand> charging, Trials trials, long since, RuleListener hearing) {
        List<Charge> charges = charging.stream()
                .map(demand -> Objects.requireNonNull(demand.charge()))
                .toList();
        Mono<Decision> decided;
        try {
            decided = limiter.tryAcquire(charges);
        } catch (IllegalArgumentException e) {
            return charging.stream().anyMatch(Demand::hasFoundLimits)
                    ? decide(withOwnLimits(charging, e, hearing), trials, since, hearing)
                    : Mono.just(undecided(new ImpossibleVerdictException(e), charging, hearing));
        }
        return decided.map(decision -> {
                    charging.forEach(demand -> Listeners.decided(hearing, demand, decision, now() - since));
                    return Verdict.of(limiter, decision, charging, decision.isAllowed() ? trials.charge() : List.of());
                })
                .onErrorResume(why -> Mono.just(undecided(why, charging, hearing)));
    }

    /** If limits that were found conflict with those of other rules, the rule's own limits apply instead. */
    private static List<Demand> withOwnLimits(List<Demand> charging, Throwable why, RuleListener hearing) {
        List<Demand> own = new ArrayList<>(charging.size());
        for (Demand demand : charging) {
            if (demand.hasFoundLimits()) {
                Demand changed = demand.withOwnLimits(why);
                Listeners.lookupsFailed(hearing, changed);
                own.add(changed);
            } else {
                own.add(demand);
            }
        }
        return own;
    }

    /**
     * If the combination of rules is invalid, for example because it has too many counts, deny: it must not bypass the
     * limits.
     */
    private static Verdict undecided(Throwable why, List<Demand> charging, RuleListener hearing) {
        boolean isDenied = why instanceof ImpossibleVerdictException;
        for (Demand demand : charging) {
            Listeners.tell(() -> hearing.undecided(demand.match(), why));
            isDenied |= demand.rule().whenUndecided() == WhenUndecided.DENY;
        }
        return isDenied ? Verdict.refusal(Problem.undecided()) : Verdict.none();
    }

    static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** Returns the rules for a log. */
    @Override
    public String toString() {
        return list().toString();
    }

    /** A rule with its compiled paths. */
    private record RuleEntry(Rule rule, List<PathMatcher> paths, List<PathMatcher> excluded) {

        @Nullable
        Match match(Request request, @Nullable Phase phase) {
            if ((phase != null && rule.phase() != phase) || !rule.isMeant(request.method())) {
                return null;
            }
            if (paths.isEmpty()) {
                return isExcluded(request) ? null : new Match(rule, request, request.pathVariables());
            }
            for (PathMatcher path : paths) {
                Map<String, String> variables = path.match(request);
                if (variables != null) {
                    return isExcluded(request) ? null : new Match(rule, request, variables);
                }
            }
            return null;
        }

        private boolean isExcluded(Request request) {
            for (PathMatcher path : excluded) {
                if (path.match(request) != null) {
                    return true;
                }
            }
            return false;
        }
    }

    /**
     * The rules in force at a time.
     *
     * @param entries the rules
     * @param shared the names of the rules under which all requests without a key share one count, on every path
     */
    private record InForce(List<RuleEntry> entries, Set<String> shared) {

        static InForce of(Collection<Rule> rules, PathSyntax syntax) {
            Objects.requireNonNull(rules, "rules are null: expected some, for example List.of()");
            Set<String> names = new HashSet<>();
            Map<String, Rule> limits = new HashMap<>();
            List<RuleEntry> entries = new ArrayList<>(rules.size());
            for (Rule rule : rules) {
                if (!names.add(rule.name())) {
                    throw new IllegalArgumentException("two rules are called " + rule.name()
                            + ": expected each to have a name of its own, for example " + rule.name() + "-2");
                }
                checkLimits(rule, limits);
                entries.add(new RuleEntry(
                        rule, compile(rule, rule.paths(), syntax), compile(rule, rule.excludePaths(), syntax)));
            }
            Set<String> shared = new TreeSet<>();
            for (Rule rule : rules) {
                if (rule.mayShareOneKey() && rule.excludePaths().isEmpty() && syntax.matchesEveryPath(rule.paths())) {
                    shared.add(rule.name());
                }
            }
            return new InForce(List.copyOf(entries), shared);
        }

        /** Limits with the same name could share their counts, and would be one limit in header fields. */
        private static void checkLimits(Rule rule, Map<String, Rule> limits) {
            for (Limit limit : rule.limits()) {
                Rule other = limits.putIfAbsent(limit.name(), rule);
                if (other != null && other != rule) {
                    throw new IllegalArgumentException("rules " + other.name() + " and " + rule.name()
                            + " both have a limit that is called " + limit.name()
                            + ": expected rules or limits of other names, for example " + rule.name() + "-2");
                }
            }
        }

        private static List<PathMatcher> compile(Rule rule, List<String> paths, PathSyntax syntax) {
            return paths.stream().map(path -> compile(rule, path, syntax)).toList();
        }

        private static PathMatcher compile(Rule rule, String path, PathSyntax syntax) {
            try {
                return syntax.compile(path);
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException("rule " + rule.name() + ": " + e.getMessage(), e);
            }
        }

        @Nullable
        Verdict denial(Request request, @Nullable Phase phase) {
            for (RuleEntry entry : entries) {
                Verdict denial = request.verdicts().denial(entry.rule);
                if (denial != null && entry.match(request, phase) != null) {
                    return denial;
                }
            }
            return null;
        }

        List<Match> matches(Request request, @Nullable Phase phase) {
            List<Match> matches = List.of();
            for (int i = 0; i < entries.size(); i++) {
                Match match = entries.get(i).match(request, phase);
                if (match != null && request.verdicts().isNew(match.rule())) {
                    matches = matches.isEmpty() ? new ArrayList<>(entries.size()) : matches;
                    matches.add(match);
                }
            }
            return matches;
        }
    }
}
