package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.PathSyntax.PathMatcher;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.settings.RuleSettings;
import io.github.spillgate.webflux.PathPatterns;
import java.util.List;
import java.util.function.Predicate;

/**
 * Requests to the Actuator's health endpoint. Rules exempt them unless their own paths name the endpoint: an
 * orchestrator that gets a 429 takes the instance out of service.
 *
 * <p>No other request may bypass a rule by resembling such a request. So this class matches exactly like the Actuator,
 * case-sensitively and only the methods that it maps, and does not use the application's {@code PathSyntax}.
 */
final class HealthRequests implements Predicate<RuleMatch> {

    private static final PathSyntax SYNTAX = PathPatterns.ofSpring();

    /** Empty until all endpoints are known, which is before the server accepts requests. */
    private volatile List<PathMatcher> paths = List.of();

    /** Sets the path patterns of the endpoint. */
    void map(List<String> patterns) {
        paths = patterns.stream().map(SYNTAX::compile).toList();
    }

    /** Returns the requests that a rule exempts: these if it applies to all paths, otherwise none. */
    Predicate<RuleMatch> exemptedBy(RuleSettings rule) {
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
