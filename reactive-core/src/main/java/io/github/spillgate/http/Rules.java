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
 * The rules that hold for the requests of a service. An adapter asks once for each phase of each request, and obeys.
 *
 * <p>They can be replaced while requests are decided: each phase of a request falls under the old rules or under the new ones. What
 * has been counted stays, as {@link Rule} says.
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
     * Rules that nobody listens to.
     *
     * @param limiter who decides; it stays the caller's
     * @param syntax how the rules' paths are written
     * @param rules the rules; their order is that of the limits in header fields
     * @return the rules
     * @throws IllegalArgumentException if two of them have one name, or a path is no pattern
     */
    public static Rules of(RateLimiter limiter, PathSyntax syntax, Collection<Rule> rules) {
        return of(limiter, syntax, rules, (match, outcome, decision, took) -> {});
    }

    /**
     * Rules with somebody who listens.
     *
     * @param limiter who decides; it stays the caller's
     * @param syntax how the rules' paths are written
     * @param rules the rules; their order is that of the limits in header fields
     * @param listener hears what they decide
     * @return the rules
     * @throws IllegalArgumentException if two of them have one name, or a path is no pattern
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
     * Returns rules that let every request pass, for a service whose limiter is switched off. There are none at first; rules that
     * {@link #replace} sets are checked and listed, and limit nothing.
     *
     * @param limiter the limiter that {@link #peek(String, String)} and {@link #reset} ask; it stays the caller's
     * @param syntax how the rules' paths are written
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
     * Puts these rules in the place of those that hold now. Either all are replaced, or, if there is something wrong with one,
     * none.
     *
     * @param rules the rules
     * @throws IllegalArgumentException if two of them have one name, or a path is no pattern
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
     * Returns the rules that hold now.
     *
     * @return the rules, in their order
     */
    public List<Rule> list() {
        return inForce.entries.stream().map(Entry::rule).toList();
    }

    /**
     * Decides on a request: all rules of the phase that match it, and have not been asked about it before, are one atomic verdict.
     *
     * @param request the request
     * @param phase which rules are asked
     * @return the verdict; never empty, and never an error. It comes on the thread that subscribes, where the limiter answers, or on
     *     one of {@code Schedulers.parallel()}
     */
    public Mono<Verdict> decide(Request request, Phase phase) {
        return decideOn(
                request,
                Objects.requireNonNull(phase, "phase is null: expected one, for example AFTER_AUTHENTICATION"));
    }

    /**
     * Decides on a request in one go, where it is known who asks: all rules that match it are one atomic verdict, of either phase.
     *
     * @param request the request
     * @return the verdict, as by {@link #decide(Request, Phase)}
     */
    public Mono<Verdict> decide(Request request) {
        return decideOn(request, null);
    }

    /**
     * Looks how far a key has used up the limits of a rule, as they are if none are looked up for it; charges nothing.
     *
     * @param rule the name of the rule
     * @param key the key, as the rule's key source finds it
     * @return what a decision would say; empty if there is no such rule
     */
    public Mono<Decision> peek(String rule, String key) {
        return named(rule).flatMap(found -> limiter.peek(Charge.of(key, found.limits())));
    }

    /**
     * Looks how far whoever sends a request has used up the limits of each rule, for a page that shows him; charges nothing. Keys
     * and limits are found on the request as they are when it is decided on; the paths and methods of the rules do not matter. Rules
     * are left out that except the request, that find no key on it, and that are only tried out.
     *
     * @param request the request
     * @return what a decision on one permit of each rule would say, told where the request is handled; empty if there is no rule to
     *     tell of; an error if a key or limits cannot be found
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
     * Forgets what a key has used under the limits of a rule.
     *
     * @param rule the name of the rule
     * @param key the key, as the rule's key source finds it
     * @return completes when it is forgotten, or if there is no such rule
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
                // Of a pattern that cannot be matched: nobody knows which rules are meant, so nobody passes them by.
                LOG.warn("no rule can be found for a request: {}", Quoted.text(e.toString()));
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

    /** Who has not heard the verdict may ask again. */
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

    /** Goes on when all is found; what is to be done meanwhile is done at once, on the thread that subscribes. */
    private static <T> Mono<T> whenFound(
            List<Mono<Demand>> lookups, Runnable meanwhile, long since, Function<List<Demand>, Mono<T>> next) {
        Mono<List<Demand>> all = AtOnce.all(lookups);
        if (AtOnce.is(all)) {
            meanwhile.run();
            return next.apply(Objects.requireNonNull(AtOnce.get(all)));
        }
        // A user's function may answer wherever it likes, for example on the thread that reads from his Redis.
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

    /** Limits that were found for one rule, and do not go together with those of the others, are no reason to decide on none. */
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

    /** What is wrong with the verdict itself, as when it is over too many counts, is no way around it. */
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

    /** A rule, and what its paths are. */
    private record Entry(Rule rule, List<PathMatcher> paths, List<PathMatcher> excluded) {

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
     * The rules of one time.
     *
     * @param entries the rules
     * @param shared the names of those under which all requests without a key share one count, whatever their path
     */
    private record InForce(List<Entry> entries, Set<String> shared) {

        static InForce of(Collection<Rule> rules, PathSyntax syntax) {
            Objects.requireNonNull(rules, "rules are null: expected some, for example List.of()");
            Set<String> names = new HashSet<>();
            Map<String, Rule> limits = new HashMap<>();
            List<Entry> entries = new ArrayList<>(rules.size());
            for (Rule rule : rules) {
                if (!names.add(rule.name())) {
                    throw new IllegalArgumentException("two rules are called " + rule.name()
                            + ": expected each to have a name of its own, for example " + rule.name() + "-2");
                }
                checkLimits(rule, limits);
                entries.add(new Entry(
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

        /** Limits of one name could share their counts, and would be one in headers. */
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
            for (Entry entry : entries) {
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
