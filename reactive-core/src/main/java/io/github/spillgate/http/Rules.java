package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.fleet.Publication;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Scalars;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * The rules of a service. An adapter applies them once for each phase of each request.
 *
 * <p>Rules can be replaced while the service runs: each phase of a request falls either under the old rules or under
 * the new ones. Counts are kept as described in {@link Rule}. Thread-safe.
 */
public final class Rules {

    private static final Logger LOG = Loggers.getLogger(Rules.class);
    private static final Mono<Verdict> NO_RULE = Mono.just(Verdict.none());

    /** A holder counts its permits as expired a twentieth of the hold time early. */
    private static final int EARLY_PART = 20;

    private final RateLimiter limiter;
    private final PathSyntax syntax;
    private final RuleInstrumentation events;
    private final boolean isOff;
    private final Fleet.Member fleet;
    private volatile CompiledRules rules;

    // Guarded by this.
    private List<Rule> configured;
    private Map<String, Publication> published = Map.of();

    private Rules(
            RateLimiter limiter, PathSyntax syntax, RuleInstrumentation events, boolean isOff, CompiledRules rules) {
        this.limiter = limiter;
        this.syntax = syntax;
        this.events = events;
        this.isOff = isOff;
        this.rules = rules;
        this.configured = rules.rules();
        this.fleet = Fleet.joinRules(limiter, limiter.name(), this::applyPublished);
    }

    /**
     * Returns rules without listeners.
     *
     * @param limiter the limiter, which the caller closes
     * @param syntax the syntax of the paths
     * @param rules the rules; their order is the order of limits in header fields
     * @return the rules
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, a path is invalid, or a
     *     hold time is not longer than the limiter's deadline
     */
    public static Rules of(RateLimiter limiter, PathSyntax syntax, Collection<Rule> rules) {
        return of(limiter, syntax, rules, RuleInstrumentation.none());
    }

    /**
     * Returns rules with listeners, tracers or warnings.
     *
     * @param limiter the limiter, which the caller closes
     * @param syntax the syntax of the paths
     * @param rules the rules; their order is the order of limits in header fields
     * @param instrumentation the listeners, tracers and warnings
     * @return the rules
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, a path is invalid, or a
     *     hold time is not longer than the limiter's deadline
     */
    public static Rules of(
            RateLimiter limiter, PathSyntax syntax, Collection<Rule> rules, RuleInstrumentation instrumentation) {
        Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\")...build()");
        Checks.present(syntax, "syntax", "PathPatterns.ofSpring()");
        Checks.present(instrumentation, "instrumentation", "RuleInstrumentation.none()");
        CompiledRules first = CompiledRules.of(rules, syntax);
        checkHoldTimes(first.rules(), limiter.deadline());
        warnOfSharedCount(first.sharingOneCount());
        return new Rules(limiter, syntax, instrumentation, false, first);
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
                Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\")...build()"),
                Checks.present(syntax, "syntax", "PathPatterns.ofSpring()"),
                RuleInstrumentation.none(),
                true,
                CompiledRules.of(List.of(), syntax));
    }

    /**
     * Replaces all rules; if one of them is invalid, none is replaced.
     *
     * @param rules the new rules
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, a path is invalid, or a
     *     hold time is not longer than the limiter's deadline
     */
    public synchronized void replace(Collection<Rule> rules) {
        CompiledRules next = compiled(rules);
        Set<String> added = new TreeSet<>(next.sharingOneCount());
        added.removeAll(this.rules.sharingOneCount());
        warnOfSharedCount(added);
        configured = next.rules();
        this.rules = withPublished(fleet.published());
        LOG.info("Rules {} use {}", this, limiter);
    }

    private CompiledRules compiled(Collection<Rule> rules) {
        CompiledRules compiled = CompiledRules.of(rules, syntax);
        checkHoldTimes(compiled.rules(), limiter.deadline());
        return compiled;
    }

    // Published limits.

    /**
     * Publishes the limits of a rule in all instances that use the limiter's store, as {@link
     * RateLimiter#publish(Publication)} does for a limiter. They replace those of the configuration, and the value also
     * says whether the rule is a shadow rule: a dry run of a limit is a shadow rule for some time. Limits that the rule
     * looks up for a key replace both.
     *
     * <pre>{@code
     * rules.publish("login", Publication.of(Limit.parse("3/15m")).shadow(true).comment("try a lower limit"));
     * }</pre>
     *
     * @param rule the name of a rule of this instance
     * @param value the limits, with the version of the value that they replace; 0 if none is published
     * @return the value with its version; errors as those of {@link RateLimiter#publish(Publication)}
     * @throws IllegalArgumentException if there is no such rule, or its limits would be refused by {@link #replace}
     */
    public Mono<Publication> publish(String rule, Publication value) {
        synchronized (this) {
            compiled(rules.rules().stream()
                    .map(one -> one == checkNamed(rule) ? under(one, value) : one)
                    .toList());
        }
        return fleet.publish(rule, value);
    }

    /**
     * Withdraws the published limits of a rule in all instances: the present configuration of each applies again.
     *
     * @param rule the name of a rule of this instance, or of another one for which limits are published
     * @param version the version of the value that is published
     * @return completes when it is withdrawn; errors as those of {@link RateLimiter#publish(Publication)}
     * @throws IllegalArgumentException if there is no such rule
     */
    public Mono<Void> unpublish(String rule, long version) {
        if (!fleet.published().containsKey(rule)) {
            checkNamed(rule);
        }
        return fleet.unpublish(rule, version);
    }

    /**
     * Returns the published limits of all rules, as far as this instance knows, also of rules that it does not have.
     *
     * @return the values, by the names of the rules
     */
    public Map<String, Publication> published() {
        return Collections.unmodifiableMap(new TreeMap<>(fleet.published()));
    }

    private Rule checkNamed(String rule) {
        Checks.present(rule, "rule", "\"login\"");
        return rules.named(rule)
                .orElseThrow(() -> new IllegalArgumentException("no rule is called " + Text.quote(rule)
                        + ": expected one of " + list().stream().map(Rule::name).toList()));
    }

    private static Rule under(Rule rule, Publication value) {
        return rule.toBuilder().limits(value.limits()).shadow(value.isShadow()).build();
    }

    private synchronized void applyPublished(Map<String, Publication> values) {
        CompiledRules before = rules;
        rules = withPublished(values);
        for (Rule rule : rules.rules()) {
            String was = before.named(rule.name()).map(Rule::summary).orElse("");
            if (!rule.summary().equals(was)) {
                Publication value = published.get(rule.name());
                LOG.info(
                        "Rule {} applies instead of {}, {}",
                        rule.summary(),
                        was,
                        value == null ? "as configured" : "as published: " + value);
            }
        }
    }

    /** Returns the configured rules with published limits; what cannot be applied leaves a rule as it is. */
    private CompiledRules withPublished(Map<String, Publication> values) {
        try {
            // All at once: limits of two rules may have names that fit only together.
            Map<String, Publication> ours = new HashMap<>();
            CompiledRules result = compiled(configured.stream()
                    .map(rule -> {
                        Publication value = values.get(rule.name());
                        if (value != null) {
                            ours.put(rule.name(), value);
                        }
                        return value == null ? rule : under(rule, value);
                    })
                    .toList());
            published = ours;
            return result;
        } catch (IllegalArgumentException | IllegalStateException e) {
            return withThoseThatFit(values);
        }
    }

    private CompiledRules withThoseThatFit(Map<String, Publication> values) {
        CompiledRules result = compiled(configured);
        Map<String, Publication> applied = new HashMap<>();
        for (Rule rule : configured) {
            Publication value = values.get(rule.name());
            for (Publication each :
                    value == null ? List.<Publication>of() : Arrays.asList(value, published.get(rule.name()))) {
                if (each != null && !applied.containsKey(rule.name())) {
                    try {
                        result = compiled(result.rules().stream()
                                .map(one -> one == rule ? under(one, each) : one)
                                .toList());
                        applied.put(rule.name(), each);
                    } catch (IllegalArgumentException | IllegalStateException e) {
                        LOG.warn(
                                "Rule {} keeps its limits, because {} cannot be applied: {}",
                                rule.name(),
                                each,
                                Text.line(e.getMessage()));
                    }
                }
            }
        }
        published = applied;
        return result;
    }

    /** If a decision takes as long as the deadline, its permits must not have expired when the request begins. */
    private static void checkHoldTimes(List<Rule> rules, Duration deadline) {
        for (Rule rule : rules) {
            for (Limit limit : rule.limits()) {
                if (limit.holdsPermits() && certain(limit.holdTime()).compareTo(deadline) <= 0) {
                    throw new IllegalArgumentException("rule " + rule.name() + ": permits of limit " + limit
                            + " could expire before a request begins, because the limiter's deadline is "
                            + deadline.toMillis() + " ms: expected a hold time of at least three times the deadline,"
                            + " for example hold=" + 3 * deadline.toMillis() + "ms");
                }
            }
        }
    }

    private static Duration certain(Duration holdTime) {
        return holdTime.minus(holdTime.dividedBy(EARLY_PART));
    }

    private static void warnOfSharedCount(Set<String> rules) {
        for (String rule : rules) {
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
        return rules.rules();
    }

    /**
     * Decides on a request. All rules of the phase that match it, and have not been applied to it before, are one
     * atomic decision. The rules are matched when this method is called, and decided on subscription.
     *
     * @param request the request
     * @param phase the phase
     * @return the verdict; never empty and never an error; emitted on the subscribing thread, on the thread on which
     *     the limiter emits, or on {@code Schedulers.parallel()}
     */
    public Mono<Verdict> decide(Request request, Phase phase) {
        return matchAndDecide(request, Checks.present(phase, "phase", "AFTER_AUTHENTICATION"));
    }

    /**
     * Decides on a request after authentication. All rules of both phases that match it are one atomic decision.
     *
     * @param request the request
     * @return the verdict, as for {@link #decide(Request, Phase)}
     */
    public Mono<Verdict> decide(Request request) {
        return matchAndDecide(request, null);
    }

    /**
     * Returns whether {@link #decide} found no rule for a request. An adapter then passes the request on and need not
     * subscribe to the verdict.
     *
     * @param verdict the verdict that {@code decide} returned
     * @return true if no rule matches the request, or if these rules are {@linkplain #off off}
     */
    public static boolean isUnmatched(Mono<Verdict> verdict) {
        return verdict == NO_RULE;
    }

    /** Matches now and not on subscription, so that a request that no rule matches needs no operator. */
    private Mono<Verdict> matchAndDecide(Request request, @Nullable Phase phase) {
        if (isOff) {
            return NO_RULE;
        }
        List<RuleMatch> matches;
        try {
            matches = rules.match(request, phase);
        } catch (RuntimeException e) {
            // A pattern cannot be matched, so the rules are unknown: deny.
            LOG.warn("Rules could not be matched to a request: {}", Text.quote(e.toString()));
            return Mono.just(Verdict.refusal(Problem.undecided()));
        }
        return matches.isEmpty() ? NO_RULE : RequestDecision.of(limiter, events, request, matches);
    }

    /**
     * Returns how much of its limits a key has used under a rule; charges nothing. If the rule looks up limits, so does
     * this, with the key alone: a lookup that reads the request fails.
     *
     * @param rule the name of the rule
     * @param key the key, as the key source of the rule finds it
     * @return the decision that an attempt would get; empty if there is no such rule; a {@link RuleLookupException} if
     *     the limits of the key cannot be looked up
     */
    public Mono<Decision> peek(String rule, String key) {
        return named(rule)
                .flatMap(found -> ChargeResolver.resolveForKey(found, key))
                .flatMap(limiter::peek);
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
            long start = Time.nanos();
            List<Mono<ResolvedCharge>> resolved = new ArrayList<>();
            for (Rule rule : list()) {
                if (!rule.isShadow()) {
                    RuleMatch match = new RuleMatch(rule, request, request.pathVariables());
                    resolved.add(ChargeResolver.resolveForPeek(match, start));
                }
            }
            return request.onRequestThread(ChargeResolver.whenResolved(Scalars.collect(resolved), this::peek));
        });
    }

    private Mono<Decision> peek(List<ResolvedCharge> resolvedRules) {
        List<Charge> charges = new ArrayList<>(resolvedRules.size());
        for (ResolvedCharge resolved : resolvedRules) {
            if (resolved.error() != null) {
                return Mono.error(resolved.error());
            }
            if (resolved.charge() != null) {
                charges.add(resolved.charge());
            }
        }
        return charges.isEmpty()
                ? Mono.empty()
                : Flux.fromIterable(batches(charges))
                        .concatMap(batch -> limiter.peek(batch.toArray(Charge[]::new)))
                        .collectList()
                        .map(Rules::join);
    }

    /** As many charges in each as one peek can read. Several peeks need not be atomic, because nothing is charged. */
    private static List<List<Charge>> batches(List<Charge> charges) {
        List<List<Charge>> batches = new ArrayList<>(1);
        int counts = Bounds.MOST_CLAIMS;
        for (Charge charge : charges) {
            counts += charge.limits().size();
            if (counts > Bounds.MOST_CLAIMS) {
                batches.add(new ArrayList<>());
                counts = charge.limits().size();
            }
            batches.get(batches.size() - 1).add(charge);
        }
        return batches;
    }

    private static Decision join(List<Decision> decisions) {
        Decision last = decisions.get(decisions.size() - 1);
        return decisions.size() == 1
                ? last
                : StoreDecision.ofPeek(
                        ((StoreDecision) last).reply(),
                        decisions.stream()
                                .flatMap(one -> ((StoreDecision) one).usages().stream())
                                .toList());
    }

    /**
     * Deletes the counts of a key under the limits of a rule, and under those that it looks up.
     *
     * @param rule the name of the rule
     * @param key the key, as the key source of the rule finds it
     * @return completes when the counts are deleted, or if there is no such rule; a {@link RuleLookupException} if the
     *     limits of the key cannot be looked up, after the counts of the rule's own limits are deleted
     */
    public Mono<Void> reset(String rule, String key) {
        return named(rule).flatMap(found -> {
            Charge own = Charge.of(key, found.limits());
            return limiter.reset(own)
                    .then(Mono.defer(() -> ChargeResolver.resolveForKey(found, key)))
                    .flatMap(charge -> charge.equals(own) ? Mono.empty() : limiter.reset(charge));
        });
    }

    private Mono<Rule> named(String rule) {
        return Mono.defer(() -> Mono.justOrEmpty(rules.named(rule)));
    }

    /** Returns the rules for log messages. */
    @Override
    public String toString() {
        return list().stream().map(Rule::summary).collect(Collectors.joining("; ", "[", "]"));
    }
}
