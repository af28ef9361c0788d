package io.github.spillgate.examples.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Snippets;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The programs on the page for plain Reactor, which must print the output shown there. The adapters test their own
 * pages.
 */
class GettingStartedTest {

    private static final Path PAGE = Snippets.ROOT.resolve("docs/getting-started-reactor.md");
    private static final String REDIS = "redis://localhost:6379";
    private static final String DEADLINE = "Duration.ofSeconds(2)";
    private static final String PREPARE = "limiter.ready().onErrorComplete()";

    @TempDir
    Path temp;

    @Test
    void theLocalStoreDeniesTheFourthCall() throws Exception {
        assertPrints(Snippets.of(PAGE, "java").get(0), Snippets.of(PAGE, "text").get(0));
    }

    /** With a longer deadline than on the page, and more attempts to connect, for a busy machine. */
    @Test
    void redisDeniesTheFourthCallAndTheNextProcess() throws Exception {
        String source = Snippets.of(PAGE, "java").get(1);
        assertThat(source).containsOnlyOnce(REDIS).containsOnlyOnce(DEADLINE).containsOnlyOnce(PREPARE);
        try (RedisForTests redis = RedisForTests.startOwn()) {
            String here = source.replace(REDIS, redis.uri().toString())
                    .replace(DEADLINE, "Duration.ofSeconds(30)")
                    .replace(PREPARE, "limiter.ready().retry(5)");
            assertPrints(here, Snippets.of(PAGE, "text").get(1));
            assertThat(run()).hasSize(4).allMatch(line -> line.startsWith("Denied"));
        }
    }

    private void assertPrints(String source, String shown) throws Exception {
        Snippets.assertCompiles("Hello", source, temp);
        assertThat(run())
                .containsExactlyElementsOf(
                        shown.lines().map(GettingStartedTest::timeless).toList());
    }

    private List<String> run() throws Exception {
        Process program = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        temp + File.pathSeparator + System.getProperty("java.class.path"),
                        "com.example.hello.Hello")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        List<String> lines = new ArrayList<>();
        new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8)
                .lines()
                .map(GettingStartedTest::timeless)
                .forEach(lines::add);
        assertThat(program.waitFor()).isZero();
        return lines;
    }

    private static String timeless(String line) {
        return line.replaceAll("PT[0-9.MS]+", "…");
    }
}
