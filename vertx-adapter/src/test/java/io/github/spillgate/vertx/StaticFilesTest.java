package io.github.spillgate.vertx;

import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.PathSpellings;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.handler.FileSystemAccess;
import io.vertx.ext.web.handler.StaticHandler;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Static files: their handler decodes and cleans the path after routing. No spelling of a path bypasses a rule. */
class StaticFilesTest extends HandlerFixture {

    @TempDir
    Path directory;

    @ParameterizedTest
    @ValueSource(strings = {"/static/", "/mounted/static/", "/"})
    void noSpellingBypassesARuleOnAPath(String mount) throws Exception {
        assertNoneIsServed(mount, address("one", 1).paths(mount + "private/*"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"/static/", "/mounted/static/", "/"})
    void noSpellingIsAnExcludedPath(String mount) throws Exception {
        assertNoneIsServed(mount, address("all", 1).paths(mount + "*").excludePaths(mount + "public/*"));
    }

    private void assertNoneIsServed(String mount, Rule.Builder rule) throws Exception {
        Files.createDirectories(directory.resolve("private"));
        Files.writeString(directory.resolve("private/a.txt"), "private");
        Rules rules = rules(local, rule);
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION));
            switch (mount) {
                case "/" -> router.route().handler(files());
                case "/static/" -> router.route("/static/*").handler(files());
                default -> {
                    Router sub = Router.router(vertx);
                    sub.route("/static/*").handler(files());
                    router.route("/mounted/*").subRouter(sub);
                }
            }
        });
        PathSpellings.assertNoneIsServed(mount, client::statusLine);
    }

    private StaticHandler files() {
        return StaticHandler.create(FileSystemAccess.ROOT, directory.toString());
    }
}
