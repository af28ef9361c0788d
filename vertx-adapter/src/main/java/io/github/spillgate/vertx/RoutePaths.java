package io.github.spillgate.vertx;

import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Request;
import io.netty.handler.codec.http.QueryStringDecoder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The path patterns of Vert.x Web routes, for rules: {@code /users/:id}, {@code /static/*}, and {@code /about}, which
 * also matches {@code /about/}. They match the path of the whole request, even on a sub-router.
 */
public final class RoutePaths implements PathSyntax {

    private static final RoutePaths OF_VERTX = new RoutePaths();
    private static final Pattern VARIABLE = Pattern.compile(":([A-Za-z0-9_]+)");

    private RoutePaths() {}

    /**
     * Returns the path syntax of Vert.x Web.
     *
     * @return the syntax
     */
    public static RoutePaths ofVertx() {
        return OF_VERTX;
    }

    @Override
    public PathMatcher compile(String pattern) {
        if (!pattern.startsWith("/") && !pattern.equals("*")) {
            throw refused(pattern, "does not begin with a slash");
        }
        int star = pattern.indexOf('*');
        if (star >= 0 && star < pattern.length() - 1) {
            throw refused(pattern, "has a star before its end");
        }
        RoutePattern encoded = RoutePattern.of(pattern);
        if (VARIABLE.matcher(pattern).replaceAll("").contains(":")) {
            throw refused(pattern, "has a variable without a name");
        }
        if (pattern.contains("{") || pattern.contains("?") || pattern.contains("#")) {
            throw refused(pattern, "has one of the characters { ? #, which no path contains");
        }
        if (encoded.names.stream().distinct().count() < encoded.names.size()) {
            throw refused(pattern, "has two variables of one name");
        }
        RoutePattern decoded = pattern.indexOf('%') < 0 ? encoded : RoutePattern.of(decoded(pattern));
        return new PathMatcher() {

            @Override
            public @Nullable Map<String, String> match(Request request) {
                return encoded.match(request.path(), RoutePaths::decoded);
            }

            @Override
            public @Nullable Map<String, String> match(String path) {
                return decoded.match(path, value -> value);
            }
        };
    }

    @Override
    public boolean matchesEveryPath(List<String> patterns) {
        return patterns.isEmpty() || patterns.contains("*") || patterns.contains("/*");
    }

    /** A rule without paths gets the variables of the route. */
    @Override
    public void checkVariable(List<String> patterns, String name) {
        boolean isMissing = patterns.stream()
                .noneMatch(pattern -> VARIABLE.matcher(pattern)
                        .results()
                        .anyMatch(one -> one.group(1).equals(name)));
        if (isMissing && !patterns.isEmpty()) {
            throw new IllegalArgumentException("no path of the rule has the variable " + name
                    + ": expected one that has, for example /users/:" + name);
        }
    }

    /** Returns a prefix that all matching paths have: the pattern up to a variable or a star, without end slashes. */
    private static String literalPrefix(String pattern) {
        return pattern.split("[:*]", 2)[0].replaceAll("/+\\z", "");
    }

    private static String regex(String pattern, List<String> names) {
        boolean hasStar = pattern.endsWith("*");
        String path = hasStar ? pattern.substring(0, pattern.length() - 1) : pattern;
        // "/static/*" also matches "/static", and "/about" also matches "/about//", as in the router.
        boolean endsWithSlash = path.endsWith("/");
        String trimmed = endsWithSlash ? path.replaceAll("/+$", "") : path;
        StringBuilder regex = new StringBuilder();
        Matcher variable = VARIABLE.matcher(trimmed);
        int from = 0;
        while (variable.find()) {
            regex.append(Pattern.quote(trimmed.substring(from, variable.start())))
                    .append("([^/]+)");
            names.add(variable.group(1));
            from = variable.end();
        }
        regex.append(Pattern.quote(trimmed.substring(from)));
        if (hasStar) {
            return regex.append(endsWithSlash ? "(?:/.*)?" : ".*").toString();
        }
        return regex.append(endsWithSlash ? "/+" : "/*").toString();
    }

    /** Decodes a path variable. Unlike in a query, a plus is not a space. */
    private static String decoded(String value) {
        try {
            return QueryStringDecoder.decodeComponent(value.replace("+", "%2B"));
        } catch (IllegalArgumentException e) {
            return value;
        }
    }

    private static IllegalArgumentException refused(String pattern, String why) {
        return new IllegalArgumentException(
                "path \"" + pattern + "\" " + why + ": expected one, for example /users/:id or /static/*");
    }

    /**
     * A pattern as a regular expression.
     *
     * @param prefix a prefix that all matching paths have
     * @param names the names of the variables
     */
    private record RoutePattern(Pattern regex, String prefix, List<String> names) {

        static RoutePattern of(String pattern) {
            List<String> names = new ArrayList<>();
            // A star also matches a line break: a client may send one, and the router treats it like other characters.
            Pattern regex = Pattern.compile(RoutePaths.regex(pattern, names), Pattern.DOTALL);
            return new RoutePattern(regex, literalPrefix(pattern), names);
        }

        /** Returns the variables; null if the path does not match. */
        @Nullable
        Map<String, String> match(String path, UnaryOperator<String> decoder) {
            // Without a matcher: this runs for each request and rule, also if none matches.
            if (!path.startsWith(prefix)) {
                return null;
            }
            Matcher found = regex.matcher(path);
            if (!found.matches()) {
                return null;
            }
            if (names.isEmpty()) {
                return Map.of();
            }
            Map<String, String> variables = new LinkedHashMap<>();
            for (int i = 0; i < names.size(); i++) {
                variables.put(names.get(i), decoder.apply(found.group(i + 1)));
            }
            return variables;
        }
    }
}
