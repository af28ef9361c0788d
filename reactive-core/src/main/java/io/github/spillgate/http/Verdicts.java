package io.github.spillgate.http;

import io.github.spillgate.Decision;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * What has been decided on one request, by whatever asked: filters, annotations, handlers. The response tells all of it. An adapter
 * keeps it with the request, however often that is dispatched inside of the service.
 */
public final class Verdicts {

    private static final Logger LOG = Loggers.getLogger(Verdicts.class);

    private static final String EXPOSE = "Access-Control-Expose-Headers";

    private final Set<Rule> asked = ConcurrentHashMap.newKeySet();
    private final Map<Rule, Verdict> denials = new ConcurrentHashMap<>(0);
    private final List<Decision> decisions = new ArrayList<>(2);
    private final List<Verdict> dependOnStatus = new ArrayList<>(0);

    /** None yet. */
    public Verdicts() {}

    /** Returns whether a rule asks for the first time, and remembers that it has. */
    boolean isNew(Rule rule) {
        return asked.add(rule);
    }

    /** Remembers a denial: who asks the same rule again, because he has not heard it or could not tell it, is denied again. */
    void denied(Rule rule, Verdict verdict) {
        denials.put(rule, verdict);
    }

    @Nullable
    Verdict denial(Rule rule) {
        return denials.get(rule);
    }

    /**
     * Says that a denial has reached whoever tells it. What he does on the way, such as to show another page of the service, is not
     * denied again.
     */
    public void told() {
        denials.clear();
    }

    /** Forgets that a rule has asked: nobody has heard the answer. */
    void forget(Rule rule) {
        asked.remove(rule);
    }

    /**
     * Notes a verdict, and tells what it leads to.
     *
     * @param verdict what has been decided
     * @return why the request is denied; empty if it may go on
     */
    public Optional<Problem> note(Verdict verdict) {
        verdict.decision().filter(made -> !decisions.contains(made)).ifPresent(decisions::add);
        if (verdict.dependsOnStatus()) {
            dependOnStatus.add(verdict);
        }
        // Of all decisions, so that it calls limits as the header fields do.
        return verdict.problem().map(problem -> verdict.decision().isPresent() ? Problem.of(decisions) : problem);
    }

    /**
     * Returns what has been decided until now.
     *
     * @return the decisions, in their order
     */
    public List<Decision> decisions() {
        return List.copyOf(decisions);
    }

    /**
     * Writes what has been decided until now, if anything has. What the service has written by itself stays: it knows more than we do.
     * Where the response is for a script of another origin, that may read the fields.
     *
     * @param headers which fields are written
     * @param response where
     */
    public void write(RateLimitHeaders headers, ResponseFields response) {
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
        // With credentials a star is not one.
        if (!exposed.contains("*") || hasCredentials) {
            names.stream().filter(exposed::add).forEach(all::add);
            response.set(EXPOSE, String.join(", ", all));
        }
    }

    /**
     * Gives back what is given back with this status. Whoever comes back as soon as he has the response shall find it given back, so the
     * response waits for this.
     *
     * @param status the status that the response is about to be sent with
     * @return completes when it is given back; never an error, which is logged
     */
    public Mono<Void> completed(int status) {
        return dependOnStatus.isEmpty()
                ? Mono.empty()
                : Mono.whenDelayError(dependOnStatus.stream()
                                .map(verdict -> verdict.completed(status))
                                .toList())
                        .onErrorResume(e -> {
                            LOG.warn(
                                    "what was to be given back with status {} is not: {}",
                                    status,
                                    Quoted.text(e.toString()));
                            return Mono.empty();
                        });
    }
}
