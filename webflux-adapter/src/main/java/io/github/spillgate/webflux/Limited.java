package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Problem;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Verdict;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * What has been decided on one exchange, by whatever asked: one web filter, both, and an annotation. Its response tells all of
 * it, when it is sent.
 */
final class Limited {

    private static final Logger LOG = Loggers.getLogger(RateLimitWebFilter.class);
    private static final String ATTRIBUTE = Limited.class.getName();
    private static final int OK = 200;

    private final Set<Rule> asked = ConcurrentHashMap.newKeySet();
    private final List<Decision> decisions = new ArrayList<>(2);
    private final List<Verdict> verdicts = new ArrayList<>(2);

    private Limited() {}

    static List<Decision> decisions(ServerWebExchange exchange) {
        Limited limited = exchange.getAttribute(ATTRIBUTE);
        return limited == null ? List.of() : List.copyOf(limited.decisions);
    }

    /**
     * Returns whether a rule asks about this exchange for the first time. An exchange that is dispatched again inside of the
     * application is still the same.
     */
    static boolean isNew(ServerWebExchange exchange, Rule rule) {
        return of(exchange).asked.add(rule);
    }

    static void forget(ServerWebExchange exchange, Rule rule) {
        of(exchange).asked.remove(rule);
    }

    /** Notes a verdict, which the response will tell of, and returns why the request is denied, if it is. */
    static Optional<Problem> note(ServerWebExchange exchange, Verdict verdict, RateLimitResponses responses) {
        if (verdict.decision().isEmpty() && !verdict.dependsOnStatus()) {
            return verdict.problem();
        }
        Limited limited = of(exchange);
        boolean first = limited.verdicts.isEmpty();
        limited.verdicts.add(verdict);
        verdict.decision().ifPresent(limited.decisions::add);
        if (first) {
            ServerHttpResponse response = exchange.getResponse();
            response.beforeCommit(() -> {
                limited.write(response.getHeaders(), responses.headers());
                HttpStatusCode status = response.getStatusCode();
                return limited.complete(status == null ? OK : status.value());
            });
        }
        // Of all decisions, so that it calls limits as the header fields do.
        return verdict.problem()
                .map(problem -> verdict.decision().isPresent() ? Problem.of(limited.decisions) : problem);
    }

    private static Limited of(ServerWebExchange exchange) {
        return (Limited) exchange.getAttributes().computeIfAbsent(ATTRIBUTE, name -> new Limited());
    }

    private void write(HttpHeaders response, RateLimitHeaders headers) {
        if (decisions.isEmpty()) {
            return;
        }
        // A handler that has written such a field by itself knows more than we do.
        headers.write(decisions, (name, value) -> {
            if (!response.containsHeader(name)) {
                response.set(name, value);
            }
        });
        if (response.containsHeader(HttpHeaders.ACCESS_CONTROL_ALLOW_ORIGIN)) {
            expose(response, headers.names());
        }
    }

    /** A script of another origin may read a field only if the response says so. */
    private static void expose(HttpHeaders response, List<String> names) {
        List<String> exposed = response.getAccessControlExposeHeaders();
        if (!exposed.contains("*") || response.getAccessControlAllowCredentials()) {
            List<String> all = new ArrayList<>(exposed);
            names.stream().filter(name -> !exposed.contains(name)).forEach(all::add);
            response.setAccessControlExposeHeaders(all);
        }
    }

    /** Whoever comes back as soon as he has the response finds given back what is given back with its status. */
    private Mono<Void> complete(int status) {
        List<Mono<Void>> refunds = verdicts.stream()
                .filter(Verdict::dependsOnStatus)
                .map(verdict -> verdict.completed(status))
                .toList();
        return refunds.isEmpty()
                ? Mono.empty()
                : Mono.whenDelayError(refunds).onErrorResume(e -> {
                    LOG.warn("what was to be given back with status {} is not: {}", status, e.toString());
                    return Mono.empty();
                });
    }
}
