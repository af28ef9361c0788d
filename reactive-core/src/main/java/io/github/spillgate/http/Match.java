package io.github.spillgate.http;

import java.util.Map;
import java.util.Optional;

/**
 * A request that a rule is about.
 *
 * @param rule the rule
 * @param request the request
 * @param pathVariables the variables in its path, by their names: of the rule's pattern, or, if it has none, of the framework's
 */
public record Match(Rule rule, Request request, Map<String, String> pathVariables) {

    /**
     * Returns a variable of the path.
     *
     * @param name its name in the pattern
     * @return the value, decoded; empty if the pattern that matched has none of that name
     */
    public Optional<String> pathVariable(String name) {
        return Optional.ofNullable(pathVariables.get(name));
    }

    /** Returns the match for a log: without what the client has sent. */
    @Override
    public String toString() {
        return "Match[" + rule.name() + "]";
    }
}
