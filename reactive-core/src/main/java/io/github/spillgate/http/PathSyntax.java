package io.github.spillgate.http;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The syntax of path patterns in rules, which is that of the adapter's framework. */
@FunctionalInterface
public interface PathSyntax {

    /**
     * Compiles a pattern. Called once, when rules are created or replaced.
     *
     * @param pattern the pattern, as written
     * @return the matcher
     * @throws IllegalArgumentException if the pattern is invalid; the message says why
     */
    PathMatcher compile(String pattern);

    /**
     * Returns whether a rule with these paths matches every path of a service.
     *
     * @param patterns the paths of the rule, which have been {@linkplain #compile(String) compiled}; empty if it has
     *     none
     * @return true if there are none, or one of them matches every path, by default {@code /**}
     */
    default boolean matchesEveryPath(List<String> patterns) {
        return patterns.isEmpty() || patterns.contains("/**");
    }

    /**
     * Checks that a rule with these paths can have a path variable in its key. Called for rules in settings; does
     * nothing by default.
     *
     * @param patterns the paths of the rule; empty if it has none
     * @param name the name of the variable
     * @throws IllegalArgumentException if no request can have the variable; the message says what was expected
     */
    default void checkVariable(List<String> patterns, String name) {}

    /** A compiled path pattern. */
    interface PathMatcher {

        /**
         * Matches the path of a request.
         *
         * @param request the request
         * @return the path variables, empty if the pattern has none; null if the path does not match
         */
        @Nullable
        Map<String, String> match(Request request);

        /**
         * Matches a path that a handler of static resources may read for a request.
         *
         * @param path the path: decoded, with a slash at its start, and without empty segments and dot segments
         * @return the path variables, as for a request; null if the path does not match
         */
        @Nullable
        Map<String, String> match(String path);
    }
}
