package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.http.response.ResponseFields;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.Spelling;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * All verdicts on one request, of filters, annotations and handlers. The response reports all of them. An adapter keeps
 * this object with the request, even if the request is dispatched again within the service.
 */
public final class RequestVerdicts {

    private static final Logger LOG = Loggers.getLogger(RequestVerdicts.class);

    /** The names in {@link #cost(String, long)} that were logged because no such rule applied. Bounded. */
    private static final Set<String> LOGGED = ConcurrentHashMap.newKeySet();

    private static final int MOST_LOGGED = 16;

    private static final String EXPOSE = "Access-Control-Expose-Headers";

    // These are immutable, and replaced under the monitor of this object: most requests have one rule, one verdict and
    // nothing else.
    private volatile List<Rule> applied = List.of();
    private volatile Map<Rule, Verdict> denials = Map.of();
    private volatile List<Verdict> noted = List.of();

    /** The real costs that the service has set, by the name of the rule. */
    private volatile Map<String, Long> costs = Map.of();

    /** The permits of concurrency limits that the request holds. Guards the next three fields, too. */
    private final List<Disposable> held = new ArrayList<>(0);

    /** Starts to watch for the end of the response. */
    private @Nullable Runnable watch;

    private boolean isWatched;
    private boolean hasEnded;

    /** The real cost of all rules without one of their own; null if the service has not set it. */
    private volatile @Nullable Long cost;

    /** Creates an empty object. */
    public RequestVerdicts() {}

    /** Returns whether the rule is applied for the first time, and records it. */
    synchronized boolean isNew(Rule rule) {
        boolean isNew = !applied.contains(rule);
        if (isNew) {
            applied = with(applied, rule);
        }
        return isNew;
    }

    private static <T> List<T> with(List<T> some, T another) {
        return some.isEmpty()
                ? List.of(another)
                : Stream.concat(some.stream(), Stream.of(another)).toList();
    }

    private static <K, V> Map<K, V> with(Map<K, V> some, K key, V value) {
        Map<K, V> all = new HashMap<>(some);
        all.put(key, value);
        return all;
    }

    /**
     * Records a denial: if the same rule is applied again, because the first verdict was lost or not delivered, the
     * request is denied again.
     */
    synchronized void denied(Rule rule, Verdict verdict) {
        denials = with(denials, rule, verdict);
    }

    @Nullable
    Verdict denial(Rule rule) {
        return denials.get(rule);
    }

    /**
     * Records that a denial has been delivered. Further processing, such as dispatching to an error page of the
     * service, is not denied again.
     */
    public synchronized void denialSent() {
        denials = Map.of();
    }

    /** Removes the record that a rule was applied, because the verdict was not delivered. */
    synchronized void forget(Rule rule) {
        applied = applied.stream().filter(one -> !one.equals(rule)).toList();
    }

    /**
     * Records a verdict and returns its consequence.
     *
     * @param verdict the verdict
     * @return the problem of the denied request; empty if the request is allowed
     */
    public Optional<Problem> note(Verdict verdict) {
        synchronized (this) {
            noted = with(noted, verdict);
        }
        Optional<Problem> problem = verdict.problem();
        // From all decisions, so that limits have the same names as in the header fields.
        return problem.isPresent() && verdict.decision().isPresent() ? Optional.of(Problem.of(decisions())) : problem;
    }

    /**
     * Returns the decisions so far.
     *
     * @return the decisions, in order
     */
    public List<Decision> decisions() {
        List<Verdict> verdicts = noted;
        return verdicts.size() == 1
                ? verdicts.get(0).decision().map(List::of).orElse(List.of())
                : verdicts.stream()
                        .flatMap(verdict -> verdict.decision().stream())
                        .distinct()
                        .toList();
    }

    /**
     * Writes the decisions so far, if there are any, to the header fields. Fields that the service has set itself are
     * not overwritten. If the response is for a script of another origin, the fields are exposed to it.
     *
     * @param headers the selection of fields
     * @param response the fields of the response
     */
    public void write(RateLimitHeaders headers, ResponseFields response) {
        List<Decision> decisions = decisions();
        if (decisions.isEmpty()) {
            return;
        }
        headers.write(decisions, (name, value) -> {
            if (response.get(name).isEmpty()) {
                response.set(name, value);
            }
        });
        if (!response.get("Access-Control-Allow-Origin").isEmpty()) {
            expose(headers.names(), response);
        }
    }

    private static void expose(List<String> names, ResponseFields response) {
        Set<String> exposed = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
        List<String> all = new ArrayList<>();
        for (String line : response.get(EXPOSE)) {
            for (String name : line.split(",", -1)) {
                if (!name.isBlank() && exposed.add(name.strip())) {
                    all.add(name.strip());
                }
            }
        }
        boolean hasCredentials =
                response.get("Access-Control-Allow-Credentials").contains("true");
        // With credentials a star is not a wildcard.
        if (!exposed.contains("*") || hasCredentials) {
            names.stream().filter(exposed::add).forEach(all::add);
            response.set(EXPOSE, String.join(", ", all));
        }
    }

    /**
     * Sets the real cost of the request. When the response ends, it replaces the cost that the rules have charged.
     *
     * @param actual the real cost, 0 or more, for each rule without a cost {@linkplain #cost(String, long) of its own}
     * @throws IllegalArgumentException if the cost is negative
     */
    public void cost(long actual) {
        cost = Checks.cost(actual);
    }

    /**
     * Sets the real cost of the request under one rule, like {@link #cost(long)}. It has no effect if the rule has
     * charged nothing.
     *
     * @param rule the name of the rule
     * @param actual the real cost, 0 or more; a later one replaces it
     * @throws IllegalArgumentException if the cost is negative
     */
    public void cost(String rule, long actual) {
        Checks.present(rule, "rule", "\"tokens\"");
        Checks.cost(actual);
        synchronized (this) {
            costs = with(costs, rule, actual);
        }
    }

    /**
     * Sets the action that starts to watch for the end of the response. It runs when the request begins to hold permits
     * of a concurrency limit, on any thread; {@link #release()} must follow when the response has ended, even if it has
     * ended before. Further actions are ignored.
     *
     * @param watch the action
     */
    public void whenHolding(Runnable watch) {
        synchronized (held) {
            if (this.watch == null) {
                this.watch = watch;
            }
        }
    }

    /**
     * Holds permits until the end of the response. If that has passed, they are released at once.
     *
     * @param permits releases the permits when it is disposed of
     */
    void hold(Disposable permits) {
        if (permits.isDisposed()) {
            return;
        }
        Runnable next = add(permits);
        if (next != null) {
            next.run();
        }
    }

    /** Returns the action to run now; null if there is none. */
    private @Nullable Runnable add(Disposable permits) {
        synchronized (held) {
            if (hasEnded) {
                return permits::dispose;
            }
            held.add(permits);
            if (isWatched) {
                return null;
            }
            isWatched = true;
            return watch;
        }
    }

    /**
     * Returns whether the request holds permits of a concurrency limit.
     *
     * @return true if it does
     */
    public boolean isHolding() {
        synchronized (held) {
            return !held.isEmpty();
        }
    }

    /** Releases the permits that the request holds now. */
    void releaseHeld() {
        List<Disposable> released;
        synchronized (held) {
            released = List.copyOf(held);
            held.clear();
        }
        released.forEach(Disposable::dispose);
    }

    /**
     * Releases the permits of concurrency limits that the request holds. For each request when its response has ended,
     * however it ended. Idempotent. Permits of a decision that is still being made are released as soon as it is made.
     */
    public void release() {
        synchronized (held) {
            hasEnded = true;
        }
        releaseHeld();
    }

    /**
     * Returns whether a real cost was set.
     *
     * @return true if {@link #settle()} may have something to settle
     */
    public boolean hasCosts() {
        return (cost != null || !costs.isEmpty()) && noted.stream().anyMatch(Verdict::isCharged);
    }

    /**
     * Settles the real costs that were set so far. For an allowed request, when its response has ended, however it
     * ended, and after {@link #refund(int)}: what that refunds is not settled. Each verdict is settled once.
     *
     * @return completes when the costs are settled, or at the deadline; never an error, because errors are logged
     */
    public Mono<Void> settle() {
        return Mono.defer(() -> {
            if (!hasCosts()) {
                return Mono.empty();
            }
            costs.keySet().forEach(this::warnIfUnknown);
            return Mono.whenDelayError(noted.stream()
                            .map(verdict -> verdict.settle(rule -> costs.getOrDefault(rule.name(), cost)))
                            .toList())
                    .onErrorResume(e -> {
                        LOG.warn("Settling the real cost of a request failed: {}", Text.quote(e.toString()));
                        return Mono.empty();
                    });
        });
    }

    /** Logs a cost for a rule that may be misspelt, once for each name. */
    private void warnIfUnknown(String rule) {
        Set<String> names = new TreeSet<>();
        applied.forEach(one -> names.add(one.name()));
        if (!names.contains(rule) && LOGGED.size() < MOST_LOGGED && LOGGED.add(rule)) {
            LOG.warn(
                    "A cost was set for rule {}, which does not apply to the request, so it has no effect: {}",
                    Text.quote(rule),
                    Spelling.expected(rule, names));
        }
    }

    /**
     * Refunds the permits that this status refunds. The response waits for this, so that the next request of the client
     * finds the permits refunded.
     *
     * @param status the status of the response that is about to be sent
     * @return completes when the permits are refunded; never an error, because errors are logged
     */
    public Mono<Void> refund(int status) {
        List<Mono<Void>> refunds = new ArrayList<>(0);
        for (Verdict verdict : noted) {
            if (verdict.dependsOnStatus()) {
                refunds.add(verdict.refund(status));
            }
        }
        return refunds.isEmpty()
                ? Mono.empty()
                : Mono.whenDelayError(refunds).onErrorResume(e -> {
                    LOG.warn("Refund for response status {} failed: {}", status, Text.quote(e.toString()));
                    return Mono.empty();
                });
    }
}
