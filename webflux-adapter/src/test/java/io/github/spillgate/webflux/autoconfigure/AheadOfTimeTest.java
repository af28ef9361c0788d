package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.springframework.aot.hint.predicate.RuntimeHintsPredicates.proxies;
import static org.springframework.aot.hint.predicate.RuntimeHintsPredicates.reflection;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.webflux.RateLimited;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpoint;
import io.netty.handler.codec.quic.QuicChannel;
import java.io.IOException;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.aot.generate.ClassNameGenerator;
import org.springframework.aot.generate.DefaultGenerationContext;
import org.springframework.aot.generate.FileSystemGeneratedFiles;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory;
import org.springframework.boot.web.server.reactive.context.AnnotationConfigReactiveWebServerApplicationContext;
import org.springframework.boot.web.server.reactive.context.ReactiveWebServerApplicationContext;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.aot.ApplicationContextAotGenerator;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.javapoet.ClassName;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;
import reactor.netty.NettyInbound;

/**
 * An application with beans that Spring has made ahead of time, as it does for a native image: what is generated
 * compiles, starts, and limits. Only that no image is built of it.
 */
class AheadOfTimeTest {

    private static final RuntimeHints HINTS = new RuntimeHints();

    @TempDir
    Path directory;

    @BeforeAll
    static void generateHints(@TempDir Path directory) throws IOException {
        generate(
                directory,
                HINTS,
                Map.of("spillgate.store", "local", "management.endpoints.web.exposure.include", "spillgate"));
    }

    @Thorough
    @Test
    void anApplicationThatIsMadeAheadOfTimeLimits() throws Exception {
        String redis = RedisForTests.first().uri().toURI().toString();
        String made = generate(Map.of("spillgate.redis.uri", "redis://localhost:1"));
        assertThat(run(made, Map.of("spillgate.redis.uri", redis)))
                .as("rules and addresses are read when it starts")
                .containsExactly("REDIS", "200", "429", "200", "200", "429", "[7/1m]");
    }

    @Thorough
    @Test
    void soDoesOneWithTheRedisOfTheApplication() throws Exception {
        RedisForTests redis = RedisForTests.first();
        String made = generate(Map.of());
        assertThat(run(made, Map.of("spring.data.redis.url", redis.uri().toURI().toString())))
                .containsExactly("REDIS", "200", "429", "200", "200", "429", "[7/1m]");
    }

    @Thorough
    @Test
    void whichStoreCountsIsSettledAheadOfTime() throws Exception {
        String made = generate(Map.of("spillgate.store", "local"));
        assertThat(run(made, Map.of("spillgate.redis.uri", "redis://localhost:1")))
                .containsExactly("LOCAL", "200", "429", "200", "200", "429", "[7/1m]");
    }

    @Thorough
    @Test
    void anUnknownSettingPreventsTheStart() throws Exception {
        String made = generate(Map.of("spillgate.store", "local"));
        assertThatThrownBy(() -> run(made, Map.of("spillgate.rules[0].path", "/")))
                .hasStackTraceContaining(
                        "spillgate.rules[0].path: rule \"address\": there is no such setting: did you mean paths?");
    }

    @Test
    void typesReadByReflectionHaveHints() {
        Stream.concat(
                        Stream.of(SpillgateProperties.class),
                        Stream.of(SpillgateProperties.class.getDeclaredClasses())
                                .filter(Class::isRecord))
                .forEach(settings -> assertThat(
                                reflection().onConstructorInvocation(settings.getDeclaredConstructors()[0]))
                        .as(settings.getName())
                        .accepts(HINTS));
        for (Class<?> told : List.of(
                SpillgateEndpoint.Overview.class,
                SpillgateEndpoint.RuleInForce.class,
                SpillgateEndpoint.LimiterInForce.class,
                SpillgateEndpoint.LimitUsed.class,
                SpillgateEndpoint.Wrong.class)) {
            assertInvocable(told);
        }
        for (String operation : List.of("overview", "usage", "reset")) {
            assertThat(reflection().onMethodInvocation(SpillgateEndpoint.class, operation))
                    .accepts(HINTS);
        }
        assertThat(reflection().onType(WrongSettingAnalyzer.class)).accepts(HINTS);
    }

    /**
     * Without them, the peer of a request would come from a header: the other end of the connection is only known for
     * Reactor Netty.
     */
    @Test
    void typesLoadedByNameHaveHints() {
        for (Class<?> type : List.of(NettyInbound.class, NettyReactiveWebServerFactory.class, QuicChannel.class)) {
            assertThat(reflection().onType(type)).as(type.getName()).accepts(HINTS);
        }
    }

    @Test
    void annotationsHaveHintsInEveryPosition() {
        for (Class<?> annotation : List.of(RateLimited.class, RateLimited.All.class)) {
            assertThat(reflection().onType(annotation).withMemberCategory(MemberCategory.INVOKE_DECLARED_METHODS))
                    .as(annotation.getName())
                    .accepts(HINTS);
        }
        assertThat(proxies().forInterfaces(RateLimited.class)).accepts(HINTS);
        assertThat(reflection().onMethodInvocation(Handlers.class, "twice")).accepts(HINTS);
        assertThat(reflection().onMethodInvocation(Contract.class, "inherited")).accepts(HINTS);
        assertThat(reflection().onType(Handlers.class)).accepts(HINTS);
    }

    private void assertInvocable(Class<?> type) {
        for (Method method : type.getDeclaredMethods()) {
            if (method.getParameterCount() == 0
                    && !method.isSynthetic()
                    && !method.getName().matches("hashCode|toString")) {
                assertThat(reflection().onMethodInvocation(method))
                        .as(method.toString())
                        .accepts(HINTS);
            }
        }
    }

    private String generate(Map<String, Object> settings) throws IOException {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("spillgate.limiters.partner.limits", "1/1s");
        return generate(directory, new RuntimeHints(), all);
    }

    /** Lets Spring generate the application, and returns the class that sets it up. */
    private static String generate(Path directory, RuntimeHints hints, Map<String, Object> settings)
            throws IOException {
        DefaultGenerationContext generation = new DefaultGenerationContext(
                new ClassNameGenerator(ClassName.get(Application.class)),
                new FileSystemGeneratedFiles(directory),
                hints);
        AnnotationConfigReactiveWebServerApplicationContext context =
                new AnnotationConfigReactiveWebServerApplicationContext();
        set(context, settings);
        context.register(Application.class);
        ClassName initializer = new ApplicationContextAotGenerator().processAheadOfTime(context, generation);
        generation.writeGeneratedContent();
        return initializer.canonicalName();
    }

    private static void set(ConfigurableApplicationContext context, Map<String, Object> settings) {
        context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("test", settings));
    }

    /** Compiles what was made, and starts it with classes that nothing else has touched. */
    @SuppressWarnings("unchecked")
    private List<String> run(String initializer, Map<String, Object> settings) throws Exception {
        compile();
        List<Path> path = new ArrayList<>(List.of(directory.resolve("classes"), directory.resolve("resources")));
        Stream.of(System.getProperty("java.class.path").split(System.getProperty("path.separator")))
                .map(Path::of)
                .forEach(path::add);
        try (URLClassLoader apart = new URLClassLoader(
                path.stream().map(AheadOfTimeTest::url).toArray(URL[]::new), ClassLoader.getPlatformClassLoader())) {
            Thread current = Thread.currentThread();
            ClassLoader before = current.getContextClassLoader();
            current.setContextClassLoader(apart);
            try {
                return ((BiFunction<String, Map<String, Object>, List<String>>) apart.loadClass(Run.class.getName())
                                .getDeclaredConstructor()
                                .newInstance())
                        .apply(initializer, settings);
            } finally {
                current.setContextClassLoader(before);
            }
        }
    }

    private void compile() throws IOException {
        Path classes = Files.createDirectories(directory.resolve("classes"));
        List<Path> sources;
        try (Stream<Path> files = Files.walk(directory.resolve("sources"))) {
            sources = files.filter(Files::isRegularFile).toList();
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter output = new StringWriter();
        String path = classes + System.getProperty("path.separator") + System.getProperty("java.class.path");
        assertThat(compiler.getTask(
                                output,
                                null,
                                null,
                                List.of("-proc:none", "-nowarn", "-d", classes.toString(), "-cp", path),
                                null,
                                compiler.getStandardFileManager(null, null, null)
                                        .getJavaFileObjectsFromPaths(sources))
                        .call())
                .as(output::toString)
                .isTrue();
    }

    private static URL url(Path path) {
        try {
            return path.toUri().toURL();
        } catch (MalformedURLException e) {
            throw new IllegalArgumentException("no place of classes: " + path, e);
        }
    }

    /** Starts the application from its generated bean definitions only, without scanning, and sends a request. */
    public static final class Run implements BiFunction<String, Map<String, Object>, List<String>> {

        @Override
        public List<String> apply(String initializer, Map<String, Object> settings) {
            try (ReactiveWebServerApplicationContext context = new ReactiveWebServerApplicationContext()) {
                Map<String, Object> all = new HashMap<>(settings);
                all.putAll(Map.of(
                        "server.port", "0",
                        "server.address", "127.0.0.1",
                        "spillgate.name", "ahead-" + System.nanoTime(),
                        "spillgate.limiters.partner.limits", "7/1m",
                        "spillgate.rules[0].name", "address",
                        "spillgate.rules[0].paths", "/limited",
                        "spillgate.rules[0].limits", "1/1m"));
                set(context, all);
                initialize(initializer, context);
                context.refresh();
                int port = context.getWebServer().getPort();
                List<String> told = new ArrayList<>(List.of(source(context.getBean(RateLimiter.class))));
                Stream.of("/limited", "/limited", "/twice", "/inherited", "/inherited")
                        .forEach(path -> told.add(status(port, path)));
                told.add(context.getBean(Partner.class).limits());
                return told;
            }
        }

        @SuppressWarnings("unchecked")
        private static void initialize(String initializer, GenericApplicationContext context) {
            try {
                Class.forName(initializer)
                        .asSubclass(ApplicationContextInitializer.class)
                        .getDeclaredConstructor()
                        .newInstance()
                        .initialize(context);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        /** A connection may take longer than the deadline of the first decision. */
        private static String source(RateLimiter limiter) {
            Source expected = limiter.state().source();
            return Awaitility.await()
                    .until(
                            () -> limiter.tryAcquire(Charge.of("warm-up", Limit.perSecond(1_000)))
                                    .block()
                                    .source(),
                            source -> source == expected)
                    .name();
        }

        private static String status(int port, String path) {
            try {
                return Integer.toString(HttpClient.newHttpClient()
                        .send(
                                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                                        .build(),
                                HttpResponse.BodyHandlers.discarding())
                        .statusCode());
            } catch (IOException e) {
                throw new IllegalStateException(e);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import({Handlers.class, Partner.class})
    static class Application {

        @Bean
        SecurityWebFilterChain permitAll(ServerHttpSecurity http) {
            return http.authorizeExchange(exchanges -> exchanges.anyExchange().permitAll())
                    .build();
        }
    }

    /** Gets a limiter of the settings by its name, and that of the rules by its type. */
    static class Partner {

        private final RateLimiter limiter;

        Partner(@Qualifier("partner") RateLimiter limiter, RateLimiter ofRules) {
            assertThat(ofRules).isNotSameAs(limiter);
            this.limiter = limiter;
        }

        String limits() {
            return limiter.limits().toString();
        }
    }

    /** Only what it says of limits stands here, as on an interface that is shared with a client. */
    interface Contract {

        @RateLimited("1/1m")
        Mono<String> inherited();
    }

    @RateLimited("100/1m")
    @RestController
    static class Handlers implements Contract {

        @GetMapping("/limited")
        Mono<String> limited() {
            return Mono.just("limited");
        }

        @RateLimited("10/1s")
        @RateLimited("100/1h")
        @GetMapping("/twice")
        Mono<String> twice() {
            return Mono.just("twice");
        }

        @Override
        @GetMapping("/inherited")
        public Mono<String> inherited() {
            return Mono.just("inherited");
        }
    }
}
