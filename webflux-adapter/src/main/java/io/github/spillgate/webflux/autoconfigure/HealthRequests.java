package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.PathSyntax.PathMatcher;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.RuleSettings;
import io.github.spillgate.webflux.PathPatterns;
import java.util.List;
import java.util.function.Predicate;

/**
 * Requests to the Actuator's health endpoint, which rules except unless their own paths name it: an orchestrator that
 * gets 429 takes the instance out of service.
 *
 * <p>Nothing may pass a rule by looking like such a request. So the patterns are compared as the Actuator compares its
 * own, with case and with the methods that it maps, and not by the application's {@code PathSyntax}.
 */
final class HealthRequests implements Predicate<RuleMatch> {

    private static final PathSyntax SYNTAX = PathPatterns.ofSpring();

    /** None before all endpoints are known, which is before the server takes requests. */
    private volatile List<PathMatcher> paths = List.of();

    /** Sets where the endpoint is mapped. */
    void map(List<String> patterns) {
        paths = patterns.stream().map(SYNTAX::compile).toList();
    }

    /** Returns which requests a rule excepts: these if it has no paths, or only {@code /**}; else none. */
    Predicate<RuleMatch> exceptedBy(RuleSettings rule) {
        boolean isForAllPaths = rule.paths().stream().allMatch(path -> SYNTAX.matchesEveryPath(List.of(path)));
        return isForAllPaths ? this : match -> false;
    }

    @Override
    public boolean test(RuleMatch match) {
        String method = match.request().method();
        if (!method.equals("GET") && !method.equals("HEAD")) {
            return false;
        }
        for (PathMatcher path : paths) {
            if (path.match(match.request()) != null) {
                return true;
            }
        }
        return false;
    }
}
