package io.github.spillgate.webflux;

import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.PathSpellings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.io.FileSystemResource;
import org.springframework.web.reactive.config.ResourceHandlerRegistry;
import org.springframework.web.reactive.config.WebFluxConfigurer;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;

/** Static resources: their handlers decode and clean the path after routing. No spelling of a path bypasses a rule. */
class StaticResourcesTest extends ServiceFixture {

    @TempDir
    Path directory;

    @ParameterizedTest
    @ValueSource(strings = {"/files/", "/urls/", "/route/", "/a/b/"})
    void noSpellingBypassesARuleOnAPath(String mount) throws IOException {
        assertNoneIsServed(mount, LimiterForTests.address("one", 1).paths(mount + "private/**"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"/files/", "/route/"})
    void noSpellingBypassesARuleOnAFile(String mount) throws IOException {
        assertNoneIsServed(mount, LimiterForTests.address("one", 1).paths(mount + "private/{file}.txt"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"/files/", "/route/"})
    void noSpellingIsAnExcludedPath(String mount) throws IOException {
        assertNoneIsServed(
                mount, LimiterForTests.address("all", 1).paths(mount + "**").excludePaths(mount + "public/**"));
    }

    private void assertNoneIsServed(String mount, Rule.Builder rule) throws IOException {
        Files.createDirectories(directory.resolve("private"));
        Files.writeString(directory.resolve("private/a.txt"), "private");
        Rules rules = Rules.of(limiters.limiter(), PathPatterns.ofSpring(), List.of(rule.build()));
        service = Service.start(context -> beans(context, rules));
        PathSpellings.assertNoneIsServed(mount, service::statusLine);
    }

    private void beans(AnnotationConfigApplicationContext context, Rules rules) {
        Service.filter(context, rules);
        context.registerBean(Resources.class, () -> new Resources(directory));
        context.registerBean(
                RouterFunction.class,
                () -> RouterFunctions.resources("/route/**", new FileSystemResource(directory.toString() + "/")));
    }

    static class Resources implements WebFluxConfigurer {

        private final Path directory;

        Resources(Path directory) {
            this.directory = directory;
        }

        @Override
        public void addResourceHandlers(ResourceHandlerRegistry registry) {
            registry.addResourceHandler("/files/**", "/a/b/**").addResourceLocations("file:" + directory + "/");
            registry.addResourceHandler("/urls/**")
                    .addResourceLocations(directory.toUri().toString());
        }
    }
}
