package io.github.spillgate.http;

import java.util.Map;
import java.util.Optional;

/**
 * A request with a rule that applies to it.
 *
 * @param rule the rule
 * @param request the request
 * @param pathVariables the path variables, by name: those of the rule's pattern or, if the rule has no paths, those of
 *     the framework
 */
public record RuleMatch(Rule rule, Request request, Map<String, String> pathVariables) {

    /**
     * Returns a path variable.
     *
     * @param name its name in the pattern
     * @return the value, decoded; empty if the pattern that matched has no such variable
     */
    public Optional<String> pathVariable(String name) {
        return Optional.ofNullable(pathVariables.get(name));
    }

    /** Returns the match for log messages, without data from the client. */
    @Override
    public String toString() {
        return "RuleMatch[" + rule.name() + "]";
    }
}
