package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.http.PathSyntax.PathMatcher;
import io.vertx.ext.web.RoutingContext;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The literal prefix of a pattern is only a shortcut: it never excludes a path that the pattern matches. */
class RoutePathsTest {

    @ParameterizedTest
    @ValueSource(
            strings = {"*", "/*", "/", "/a", "/a/", "/a//", "/a*", "/a/*", "/a//*", "/a/\n", "/a/\n*", "/a/b", "/A"})
    void patternMatchesItsOwnPath(String pattern) {
        String path = pattern.replace("*", "");
        assertThat(match(pattern, path.isEmpty() ? "/" : path)).isEmpty();
        assertThat(match(pattern, path + "//")).isNotNull();
    }

    @ParameterizedTest
    @CsvSource({"/static/*, /static", "/static//*, /static", "/about, /about/", "/about/, /about//", "*, /x", "/*, /x"})
    void patternMatchesOtherSlashes(String pattern, String path) {
        assertThat(match(pattern, path)).isEmpty();
    }

    @ParameterizedTest
    @CsvSource({"/:id, /7", "/users/:id, /users/7", "/users-:id, /users-7", "/:id/x, /7/x", "/users/:id/*, /users/7"})
    void variableEndsThePrefix(String pattern, String path) {
        assertThat(match(pattern, path)).containsExactly(Map.entry("id", "7"));
    }

    @ParameterizedTest
    @CsvSource({"/static/*, /stati", "/static/*, /staticx", "/about, /About", "/users/:id, /users", "/a, /"})
    void otherPathsDoNotMatch(String pattern, String path) {
        assertThat(match(pattern, path)).isNull();
    }

    /** A client may send one, and the router treats it like any other character. */
    @ParameterizedTest
    @ValueSource(strings = {"/api/\n/x", "/api/\r", "/api/\u0085x", "/api/\u2028"})
    void starMatchesALineEnd(String path) {
        assertThat(match("/api/*", path)).isEmpty();
    }

    @Test
    void aStarMatchesEveryPath() {
        RoutePaths paths = RoutePaths.ofVertx();
        for (List<String> every : List.of(List.<String>of(), List.of("*"), List.of("/a", "/*"))) {
            assertThat(paths.matchesEveryPath(every)).as("%s", every).isTrue();
        }
        assertThat(paths.matchesEveryPath(List.of("/a/*", "/:id"))).isFalse();
    }

    /** A route does not accept them either; the last one is in the syntax of Spring. */
    @ParameterizedTest
    @ValueSource(strings = {"/users/:", "/users/{id}"})
    void otherPatternsAreRejected(String pattern) {
        assertThatThrownBy(() -> RoutePaths.ofVertx().compile(pattern)).isInstanceOf(IllegalArgumentException.class);
    }

    private static Map<String, String> match(String pattern, String path) {
        PathMatcher compiled = RoutePaths.ofVertx().compile(pattern);
        RoutingContext ctx = (RoutingContext) Proxy.newProxyInstance(
                RoutePathsTest.class.getClassLoader(),
                new Class<?>[] {RoutingContext.class},
                (self, method, values) -> {
                    assertThat(method.getName()).isEqualTo("normalizedPath");
                    return path;
                });
        return compiled.match(new RoutingRequest(ctx));
    }
}
