package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.PathSyntax.PathMatcher;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenUndecided;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;

/**
 * The rules that hold for the requests of a service. An adapter asks once for each phase of each request, and obeys.
 *
 * <p>They can be replaced while requests are decided: each request falls under the old rules or under the new ones. What has been
 * counted stays, as {@link Rule} says.
 */
public final class Rules {

    private static final Mono<Verdict> NONE = Mono.just(Verdict.none());

    private final RateLimiter limiter;
    private final PathSyntax syntax;
    private final RuleListener listener;
    private volatile InForce inForce;

    private Rules(RateLimiter limiter, PathSyntax syntax, RuleListener listener, InForce inForce) {
        this.limiter = limiter;
        this.syntax = syntax;
        this.listener = listener;
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
        return of(limiter, syntax, rules, (match, decision) -> {});
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
        return new Rules(limiter, syntax, listener, InForce.of(rules, syntax));
    }

    /**
     * Puts these rules in the place of those that hold now. Either all are replaced, or, if there is something wrong with one,
     * none.
     *
     * @param rules the rules
     * @throws IllegalArgumentException if two of them have one name, or a path is no pattern
     */
    public void replace(Collection<Rule> rules) {
        inForce = InForce.of(rules, syntax);
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
     * Decides on a request: all rules of the phase that match it are one atomic verdict.
     *
     * @param request the request
     * @param phase which rules are asked
     * @return the verdict; never empty, and never an error. It comes on the thread that subscribes, or where the limiter answers
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

    private Mono<Verdict> decideOn(Request request, @Nullable Phase phase) {
        return Mono.defer(() -> {
            List<Match> matches = inForce.matches(request, phase);
            if (matches.isEmpty()) {
                return NONE;
            }
            Mono<List<Asked>> all = AtOnce.all(matches.stream().map(this::ask).toList());
            if (AtOnce.is(all)) {
                return decide(Objects.requireNonNull(AtOnce.get(all)));
            }
            long since = Schedulers.parallel().now(TimeUnit.NANOSECONDS);
            return all.flatMap(
                    asked -> decide(asked).contextWrite(context -> context.put(LimitStore.WAITING_SINCE, since)));
        });
    }

    // What is asked for.

    private Mono<Asked> ask(Match match) {
        try {
            if (match.rule().isExcepted(match)) {
                return Mono.just(Asked.nothing(match));
            }
            Mono<Asked> asked = ask(match, match.rule().key().find(match));
            if (AtOnce.is(asked)) {
                return Mono.just(Objects.requireNonNull(AtOnce.get(asked)));
            }
            return asked.timeout(match.rule().timeout(), Schedulers.parallel())
                    .onErrorResume(e -> Mono.just(Asked.undecided(match, explained(match, e))));
        } catch (Throwable e) {
            // Of a function of the user's.
            Exceptions.throwIfFatal(e);
            return Mono.just(Asked.undecided(match, e));
        }
    }

    private static Throwable explained(Match match, Throwable e) {
        return e instanceof TimeoutException
                ? new TimeoutException(
                        "key, cost and limits of rule " + match.rule().name() + " were not found within "
                                + match.rule().timeout())
                : e;
    }

    private static Mono<Asked> ask(Match match, Mono<String> key) {
        if (AtOnce.is(key)) {
            return ask(match, AtOnce.get(key));
        }
        return key.map(Optional::of).defaultIfEmpty(Optional.empty()).flatMap(found -> ask(match, found.orElse(null)));
    }

    private static Mono<Asked> ask(Match match, @Nullable String key) {
        Rule rule = match.rule();
        boolean isMissing = key == null || key.isEmpty();
        if (isMissing && rule.whenMissing() != Rule.WhenMissing.SHARE) {
            boolean skips = rule.whenMissing() == Rule.WhenMissing.SKIP;
            return Mono.just(skips ? Asked.nothing(match) : Asked.refusal(match));
        }
        Mono<List<Limit>> limits = isMissing ? Mono.just(rule.limits()) : limits(match, Objects.requireNonNull(key));
        Mono<Long> cost = rule.costSource()
                .map(source -> orElse(source.find(match), rule.cost()))
                .orElseGet(() -> Mono.just(rule.cost()));
        if (AtOnce.is(limits) && AtOnce.is(cost)) {
            return Mono.just(asked(
                    match,
                    key,
                    isMissing,
                    Objects.requireNonNull(AtOnce.get(limits)),
                    Objects.requireNonNull(AtOnce.get(cost))));
        }
        return Mono.zip(limits, cost).map(found -> asked(match, key, isMissing, found.getT1(), found.getT2()));
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

    private static Asked asked(Match match, @Nullable String key, boolean isMissing, List<Limit> limits, long cost) {
        if (limits.isEmpty()) {
            throw new IllegalStateException(
                    "rule " + match.rule().name()
                            + " has found no limits and has none of its own: expected one, for example .limit(Limit.perMinute(60))");
        }
        return isMissing || key == null
                ? Asked.chargeNobody(match, limits, cost)
                : Asked.charge(match, key, limits, cost);
    }

    // What is decided.

    private Mono<Verdict> decide(List<Asked> all) {
        List<Asked> enforced = new ArrayList<>(all.size());
        List<Asked> shadows = new ArrayList<>(0);
        List<Limit> refused = new ArrayList<>(0);
        boolean isUndecided = false;
        for (Asked asked : all) {
            boolean counts = !asked.rule().isShadow();
            Throwable why = asked.why();
            if (why != null) {
                tell(() -> listener.undecided(asked.match(), why));
                isUndecided |= counts && asked.rule().whenUndecided() == WhenUndecided.DENY;
            } else if (asked.isRefused() && counts) {
                refused.addAll(asked.rule().limits());
            } else if (asked.charge() != null) {
                (counts ? enforced : shadows).add(asked);
            }
        }
        if (isUndecided) {
            return Mono.just(Verdict.refusal(Problem.undecided()));
        }
        if (!refused.isEmpty()) {
            return Mono.just(Verdict.refusal(Problem.withoutKey(refused)));
        }
        return enforced.isEmpty() ? Mono.just(Verdict.of(null, tryOut(shadows))) : enforce(enforced, shadows);
    }

    private Mono<Verdict> enforce(List<Asked> enforced, List<Asked> shadows) {
        List<Charge> charges = enforced.stream().map(Rules::chargeOf).toList();
        return Mono.defer(() -> limiter.tryAcquire(charges))
                .map(decision -> verdict(decision, enforced, shadows))
                .onErrorResume(why -> Mono.just(undecided(why, enforced)));
    }

    private Verdict verdict(Decision decision, List<Asked> enforced, List<Asked> shadows) {
        List<Verdict.Part> parts = new ArrayList<>(enforced.size() + shadows.size());
        for (Asked asked : enforced) {
            tell(() -> listener.decided(asked.match(), decision));
            parts.add(new Verdict.Part(
                    asked.rule(), limiter, chargeOf(asked), Mono.just(decision), enforced.size() == 1));
        }
        if (decision.isAllowed()) {
            parts.addAll(tryOut(shadows));
        }
        return Verdict.of(decision, parts);
    }

    private Verdict undecided(Throwable why, List<Asked> enforced) {
        boolean denies = false;
        for (Asked asked : enforced) {
            tell(() -> listener.undecided(asked.match(), why));
            denies |= asked.rule().whenUndecided() == WhenUndecided.DENY;
        }
        return denies ? Verdict.refusal(Problem.undecided()) : Verdict.none();
    }

    /** Each by itself, and nobody waits for it: a rule that is tried out must not change anything. */
    private List<Verdict.Part> tryOut(List<Asked> shadows) {
        List<Verdict.Part> parts = new ArrayList<>(shadows.size());
        for (Asked asked : shadows) {
            Mono<Decision> decision =
                    Mono.defer(() -> limiter.tryAcquire(chargeOf(asked))).cache();
            decision.subscribe(
                    made -> tell(() -> listener.decided(asked.match(), made)),
                    why -> tell(() -> listener.undecided(asked.match(), why)));
            parts.add(new Verdict.Part(asked.rule(), limiter, chargeOf(asked), decision, true));
        }
        return parts;
    }

    private static Charge chargeOf(Asked asked) {
        return Objects.requireNonNull(asked.charge());
    }

    private static void tell(Runnable listener) {
        try {
            listener.run();
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            Operators.onErrorDropped(e, Context.empty());
        }
    }

    /** Returns the rules for a log. */
    @Override
    public String toString() {
        return list().toString();
    }

    /** A rule, and what its paths are. */
    private record Entry(Rule rule, List<PathMatcher> paths) {

        @Nullable
        Match match(Request request, @Nullable Phase phase) {
            if ((phase != null && rule.phase() != phase) || !rule.isMeant(request.method())) {
                return null;
            }
            if (paths.isEmpty()) {
                return new Match(rule, request, request.pathVariables());
            }
            for (PathMatcher path : paths) {
                Map<String, String> variables = path.match(request);
                if (variables != null) {
                    return new Match(rule, request, variables);
                }
            }
            return null;
        }
    }

    /** The rules of one time. */
    private record InForce(List<Entry> entries) {

        static InForce of(Collection<Rule> rules, PathSyntax syntax) {
            Set<String> names = new HashSet<>();
            List<Entry> entries = new ArrayList<>(rules.size());
            for (Rule rule : rules) {
                if (!names.add(rule.name())) {
                    throw new IllegalArgumentException("two rules are called " + rule.name()
                            + ": expected each to have a name of its own, for example " + rule.name() + "-2");
                }
                entries.add(new Entry(
                        rule,
                        rule.paths().stream()
                                .map(path -> compile(rule, path, syntax))
                                .toList()));
            }
            return new InForce(List.copyOf(entries));
        }

        private static PathMatcher compile(Rule rule, String path, PathSyntax syntax) {
            try {
                return syntax.compile(path);
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException("rule " + rule.name() + ": " + e.getMessage(), e);
            }
        }

        List<Match> matches(Request request, @Nullable Phase phase) {
            List<Match> matches = List.of();
            for (int i = 0; i < entries.size(); i++) {
                Match match = entries.get(i).match(request, phase);
                if (match != null) {
                    matches = matches.isEmpty() ? new ArrayList<>(entries.size()) : matches;
                    matches.add(match);
                }
            }
            return matches;
        }
    }
}
