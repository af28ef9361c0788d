package io.github.spillgate.webflux;

import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Request;
import io.github.spillgate.internal.Checks;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.http.server.PathContainer;
import org.springframework.http.server.PathContainer.Options;
import org.springframework.http.server.RequestPath;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.util.pattern.PathPattern;
import org.springframework.web.util.pattern.PathPattern.PathMatchInfo;
import org.springframework.web.util.pattern.PathPatternParser;
import org.springframework.web.util.pattern.PatternParseException;

/**
 * The path patterns of Spring controllers, for rules: {@code /users/{id}}, {@code /static/**}, and everything else that
 * {@link PathPattern} supports.
 */
public final class PathPatterns implements PathSyntax {

    /** Two stars, or a variable for the rest of the path. */
    private static final Pattern EVERY_PATH = Pattern.compile("/(\\*\\*|\\{\\*[^}]+})");

    private final PathPatternParser parser;

    private PathPatterns(PathPatternParser parser) {
        this.parser = parser;
    }

    /**
     * Returns the path syntax of Spring's default parser.
     *
     * @return the syntax
     */
    public static PathPatterns ofSpring() {
        return of(PathPatternParser.defaultInstance);
    }

    /**
     * Returns the path syntax of a parser. Use the parser that maps requests to handlers: if that maps {@code /Login}
     * to {@code /login}, a limit on {@code /login} must match {@code /Login} too.
     *
     * @param parser the parser
     * @return the syntax
     */
    public static PathPatterns of(PathPatternParser parser) {
        return new PathPatterns(Checks.present(parser, "parser", "PathPatternParser.defaultInstance"));
    }

    @Override
    public PathMatcher compile(String pattern) {
        PathPattern compiled;
        try {
            compiled = parser.parse(parser.initFullPathPattern(pattern));
        } catch (PatternParseException e) {
            throw new IllegalArgumentException(
                    "path \"" + pattern + "\" is not a path pattern: " + e.getMessage()
                            + ": expected one, for example /users/{id}",
                    e);
        }
        // A path that is decoded already.
        Options options = Options.create(parser.getPathOptions().separator(), false);
        return new PathMatcher() {

            @Override
            public @Nullable Map<String, String> match(Request request) {
                RequestPath path =
                        request.as(ServerWebExchange.class).getRequest().getPath();
                return variables(compiled, path.pathWithinApplication());
            }

            @Override
            public @Nullable Map<String, String> match(String path) {
                return variables(compiled, PathContainer.parsePath(path, options));
            }
        };
    }

    @Override
    public boolean matchesEveryPath(List<String> patterns) {
        return patterns.isEmpty()
                || patterns.stream()
                        .map(parser::initFullPathPattern)
                        .anyMatch(pattern -> EVERY_PATH.matcher(pattern).matches());
    }

    /** A rule in settings needs a pattern: web filters run before a request is mapped to a handler. */
    @Override
    public void checkVariable(List<String> patterns, String name) {
        Pattern variable = Pattern.compile("\\{\\*?" + Pattern.quote(name) + "[:}]");
        if (patterns.stream().noneMatch(pattern -> variable.matcher(pattern).find())) {
            throw new IllegalArgumentException("no path of the rule has the variable " + name
                    + ": expected one that has, for example /users/{" + name + "}");
        }
    }

    private static @Nullable Map<String, String> variables(PathPattern pattern, PathContainer path) {
        PathMatchInfo found = pattern.matchAndExtract(path);
        return found == null ? null : found.getUriVariables();
    }
}
