package io.github.spillgate.http;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** How paths are written in rules: each framework has its own way, and its users know it. */
@FunctionalInterface
public interface PathSyntax {

    /**
     * Reads a pattern, once, when rules are made or replaced.
     *
     * @param pattern as the user has written it
     * @return what tells whether a path is meant
     * @throws IllegalArgumentException if it is no pattern; the message says why
     */
    PathMatcher compile(String pattern);

    /**
     * Returns whether a rule with these paths matches every path of a service.
     *
     * @param patterns the paths of the rule, which have been {@linkplain #compile(String) read}; empty if it names none
     * @return true if there are none, or if one of them matches every path; by default, that is {@code /**}
     */
    default boolean matchesEveryPath(List<String> patterns) {
        return patterns.isEmpty() || patterns.contains("/**");
    }

    /** Tells whether a path is meant. */
    @FunctionalInterface
    interface PathMatcher {

        /**
         * Looks at a request.
         *
         * @param request the request
         * @return the variables in its path, empty if the pattern has none; null if another path is meant
         */
        @Nullable
        Map<String, String> match(Request request);
    }
}
