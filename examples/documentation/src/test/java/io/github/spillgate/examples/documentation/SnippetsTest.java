package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.testkit.KotlinSource;
import io.github.spillgate.testkit.ShownTests;
import io.github.spillgate.testkit.Snippets;
import io.github.spillgate.testkit.Snippets.Snippet;
import io.github.spillgate.testkit.Thorough;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Element;
import org.w3c.dom.Node;
import org.w3c.dom.NodeList;
import org.xml.sax.InputSource;

/** The code blocks of the documentation, which must compile, and its texts of limits, which must parse. */
class SnippetsTest {

    /**
     * The kinds of blocks: tested here or in the module that the kind names, copied from a test, or showing only input
     * and output.
     */
    private static final Set<String> KINDS =
            Set.of("java", "kotlin", "java webflux", "java vertx", "java tested", "yaml", "json", "xml", "sh", "text");

    private static final Pattern LIMIT = Pattern.compile("(?m)^\\| `([^`]+)` \\| `(Limit\\.[^`]+)` \\|");

    private static final Pattern VERSION = Pattern.compile("<(?:version|[a-z0-9.-]+\\.version)>([0-9][^<$]*)<");

    private static final Pattern TEXT = Pattern.compile("`([0-9]+/[0-9]*[a-z]+( [^`]+)?)`");

    /** The context of snippets. */
    private static final String AROUND = """
            import static org.assertj.core.api.Assertions.assertThat;

            import io.github.spillgate.*;
            import io.github.spillgate.local.*;
            import io.github.spillgate.postgres.*;
            import io.github.spillgate.redis.*;
            import io.github.spillgate.failover.*;
            import io.github.spillgate.fleet.*;
            import io.github.spillgate.metrics.*;
            import io.github.spillgate.spi.*;
            import io.lettuce.core.ClientOptions;
            import io.lettuce.core.MaintNotificationsConfig;
            import io.lettuce.core.RedisClient;
            import io.lettuce.core.RedisURI;
            import io.lettuce.core.SslOptions;
            import io.lettuce.core.cluster.RedisClusterClient;
            import io.lettuce.core.protocol.ProtocolVersion;
            import io.micrometer.core.instrument.MeterRegistry;
            import io.r2dbc.spi.ConnectionFactories;
            import io.r2dbc.spi.ConnectionFactory;
            import java.io.File;
            import java.time.*;
            import java.util.*;
            import java.util.concurrent.TimeUnit;
            import java.util.concurrent.atomic.AtomicLong;
            import org.testcontainers.containers.GenericContainer;
            import reactor.core.publisher.*;
            import reactor.core.scheduler.Schedulers;
            import reactor.test.StepVerifier;

            abstract class Snippet {
                RedisClient redisClient;
                ConnectionFactory connectionFactory;
                RedisStore store;
                RateLimiter limiter;
                Decision decision;
                MeterRegistry registry;
                String ip;
                String apiKey;
                Plan plan;
                Plans plans;
                Flux<Order> orders;

                interface Plan {
                    List<Limit> limits();
                }

                interface Plans {
                    Mono<Plan> of(String key);
                }

                record Order(int lines) {}

                abstract Mono<String> work();

                abstract Mono<String> cheaperWork();

                abstract Mono<String> call(Order order);

                abstract Mono<Boolean> passwordMatches();

                void snippet() {
            %s
                }
            }
            """;

    /** What a snippet on the page of tests has in it that needs Docker. */
    private static final String NEEDS_DOCKER = "GenericContainer";

    /** The context of the snippet about the contract of stores. */
    private static final String WITH_MY_STORE = """
            import io.github.spillgate.spi.*;
            import java.util.*;
            import reactor.core.publisher.*;

            %s

            class MyStore implements LimitStore {
                @Override
                public Mono<StoreDecision> take(StoreRequest request) {
                    return Mono.empty();
                }

                @Override
                public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                    return Mono.empty();
                }

                @Override
                public Mono<Void> reset(List<Claim> claims, long deadline) {
                    return Mono.empty();
                }
            }
            """;

    /** The context of snippets in Kotlin. */
    private static final String KOTLIN_AROUND = """
            import io.github.spillgate.*
            import java.time.Duration
            import kotlinx.coroutines.flow.Flow
            import kotlinx.coroutines.reactive.asFlow
            import kotlinx.coroutines.reactor.asFlux
            import kotlinx.coroutines.reactor.awaitSingle

            class Order(val lines: Long)

            fun work() = "done"

            %s
            """;

    @TempDir
    Path temp;

    @TestFactory
    Stream<DynamicTest> javaInTheDocumentationCompiles() throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        for (Snippet snippet : Snippets.all("java")) {
            tests.add(DynamicTest.dynamicTest(
                    snippet.place(), () -> Snippets.assertCompiles(snippet.type("Snippet"), inContext(snippet), temp)));
        }
        assertThat(tests).isNotEmpty();
        return tests.stream();
    }

    private static String inContext(Snippet snippet) {
        if (snippet.isFile()) {
            return snippet.text().contains("MyStore") ? WITH_MY_STORE.formatted(snippet.text()) : snippet.text();
        }
        return AROUND.formatted(snippet.text());
    }

    @TestFactory
    Stream<DynamicTest> snippetsOfThePageOnTestingPass() throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        for (Snippet snippet : Snippets.all("java")) {
            if (snippet.page().endsWith("docs/testing.md")
                    && !snippet.text().contains("MyStore")
                    && !snippet.text().contains(NEEDS_DOCKER)) {
                String type = snippet.type("");
                tests.add(DynamicTest.dynamicTest(snippet.place(), () -> {
                    Snippets.assertCompiles(type, snippet.text(), temp);
                    ShownTests.assertPass(type, temp);
                }));
            }
        }
        assertThat(tests).hasSizeGreaterThan(1);
        return tests.stream();
    }

    /** Each dependency in a snippet must be an artifact of this build, or have the version that this build uses. */
    @TestFactory
    Stream<DynamicTest> dependenciesMatchThisBuild() throws Exception {
        String pom = Files.readString(ROOT.resolve("pom.xml"));
        Element parent = xml(pom);
        String group = text(parent, "groupId");
        String version = text(parent, "version");
        Set<String> artifacts = new TreeSet<>();
        NodeList modules = parent.getElementsByTagName("module");
        for (int i = 0; i < modules.getLength(); i++) {
            Path module = ROOT.resolve(modules.item(i).getTextContent()).resolve("pom.xml");
            artifacts.add(text(xml(Files.readString(module)), "artifactId"));
        }
        Set<String> versions =
                VERSION.matcher(pom).results().map(found -> found.group(1)).collect(Collectors.toSet());
        List<Snippet> snippets = Snippets.all("xml");
        assertThat(snippets).hasSizeGreaterThan(3);
        return snippets.stream()
                .map(snippet -> DynamicTest.dynamicTest(snippet.place(), () -> {
                    List<Element> ours = new ArrayList<>();
                    for (Element part : withVersion(xml(snippet.text()))) {
                        if (text(part, "groupId").equals(group)) {
                            ours.add(part);
                            assertThat(text(part, "version")).isEqualTo(version);
                            assertThat(artifacts).contains(text(part, "artifactId"));
                        } else if (!text(part, "groupId").equals("com.example")) {
                            assertThat(versions).contains(text(part, "version"));
                        }
                    }
                    assertThat(ours).hasSize(1);
                }));
    }

    /** Returns the elements with a version: this element and its descendants. */
    private static List<Element> withVersion(Element root) {
        List<Element> found = new ArrayList<>();
        NodeList versions = root.getElementsByTagName("version");
        for (int i = 0; i < versions.getLength(); i++) {
            found.add((Element) versions.item(i).getParentNode());
        }
        return found;
    }

    private static Element xml(String text) throws Exception {
        return DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(new InputSource(new StringReader(text)))
                .getDocumentElement();
    }

    /** Returns the text of a direct child. */
    private static String text(Element element, String name) {
        for (Node child = element.getFirstChild(); child != null; child = child.getNextSibling()) {
            if (child.getNodeName().equals(name)) {
                return child.getTextContent();
            }
        }
        throw new AssertionError(element.getTagName() + " has no " + name);
    }

    @Test
    void everyBlockHasAKnownKind() throws IOException {
        for (Snippet snippet : Snippets.all()) {
            assertThat(KINDS).as(snippet.place()).contains(snippet.kind());
        }
    }

    @Test
    void theContributingPageListsEveryKind() throws IOException {
        List<String> rows = Files.readString(ROOT.resolve("docs/CONTRIBUTING.md"))
                .lines()
                .filter(line -> line.startsWith("| `"))
                .map(line -> line.split(" \\| ", -1)[0])
                .toList();
        assertThat(KINDS).allSatisfy(kind -> assertThat(rows).anyMatch(row -> row.contains("`" + kind + "`")));
    }

    /** The source is compiled and tested there, and names the page, so that a change is not missed. */
    @TestFactory
    Stream<DynamicTest> testedSnippetsAreInASource() throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        for (Snippet snippet : Snippets.all("java tested")) {
            String named = ROOT.relativize(snippet.page().toAbsolutePath().normalize())
                    .toString()
                    .replace('\\', '/');
            tests.add(DynamicTest.dynamicTest(
                    snippet.place(),
                    () -> assertThat(Snippets.testedSources())
                            .as("a source that names %s and has%n%s", named, snippet.text())
                            .anyMatch(source -> source.contains(named) && snippet.standsIn(source))));
        }
        assertThat(tests).isNotEmpty();
        return tests.stream();
    }

    /** Thorough, because the Kotlin compiler takes longer than all other checks of the pages together. */
    @Thorough
    @Test
    void kotlinInTheDocumentationCompiles() throws IOException {
        int compiled = 0;
        for (Snippet snippet : Snippets.all("kotlin")) {
            KotlinSource.assertCompiles("Snippet", KOTLIN_AROUND.formatted(snippet.text()), temp);
            compiled++;
        }
        assertThat(compiled).isPositive();
    }

    @Test
    void textsAndCodeOnThePageOfLimitsAreEqual() throws IOException {
        String page = Files.readString(ROOT.resolve("docs/limits.md"));
        List<String> texts = all(LIMIT, page, 1);
        List<String> codes = all(LIMIT, page, 2);
        assertThat(texts).hasSizeGreaterThan(5);
        StringBuilder body = new StringBuilder();
        for (int i = 0; i < texts.size(); i++) {
            body.append("check(\"%s\", %s);\n".formatted(texts.get(i), codes.get(i)));
            Limit.parse(texts.get(i));
        }
        String source = """
                import io.github.spillgate.*;
                import java.time.*;

                public class Snippet {
                    public static void main(String[] args) {
                %s
                    }

                    static void check(String text, Limit limit) {
                        if (!Limit.parse(text).equals(limit)) {
                            throw new AssertionError(text + " is not " + limit);
                        }
                    }
                }
                """;
        assertCompiles(source.formatted(body));
        Process check = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        temp + System.getProperty("path.separator") + System.getProperty("java.class.path"),
                        "Snippet")
                .redirectErrorStream(true)
                .start();
        String said = new String(check.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(said).doesNotContain("AssertionError");
        assertThat(waitFor(check)).as(said).isZero();
    }

    @Test
    void limitsOnThePageOfLimitsParse() throws IOException {
        List<String> texts = all(TEXT, Files.readString(ROOT.resolve("docs/limits.md")), 1);
        assertThat(texts).hasSizeGreaterThan(8);
        texts.forEach(text -> assertThat(Limit.parse(text)).hasToString(text.replace("/s", "/1s")));
    }

    private void assertCompiles(String source) throws IOException {
        Snippets.assertCompiles("Snippet", source, temp);
    }

    private static int waitFor(Process process) {
        try {
            return process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    private static List<String> all(Pattern pattern, String text, int group) {
        List<String> all = new ArrayList<>();
        Matcher matcher = pattern.matcher(text);
        while (matcher.find()) {
            all.add(matcher.group(group));
        }
        return all;
    }
}
