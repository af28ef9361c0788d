package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The minimal examples, which contain exactly the files that the getting-started pages show. {@link ReleaseTest} builds
 * them against the published artifacts and runs them.
 */
class MinimalExamplesTest {

    @ParameterizedTest
    @CsvSource({
        "webflux, xml, pom.xml",
        "webflux, java webflux, src/main/java/com/example/hello/HelloApplication.java",
        "webflux, yaml, src/main/resources/application.yaml",
        "vertx, xml, pom.xml",
        "vertx, java vertx, src/main/java/com/example/hello/Hello.java",
    })
    void filesEqualTheFirstBlocksOfTheGettingStartedPages(String adapter, String kind, String file) throws IOException {
        Path page = ROOT.resolve("docs/getting-started-" + adapter + ".md");
        assertThat(Files.readString(example(adapter).resolve(file)))
                .as("%s of the example and of %s", file, page)
                .isEqualTo(Snippets.of(page, kind).get(0));
    }

    @Test
    void theDependencyIsTheOneOfTheReadme() throws IOException {
        List<String> shown = Snippets.of(ROOT.resolve("README.md"), "xml");
        assertThat(shown).hasSize(1);
        String dependency = shown.get(0).replaceAll("\\s+", "");
        assertThat(Files.readString(example("webflux").resolve("pom.xml")).replaceAll("\\s+", ""))
                .contains(dependency);
        assertThat(Files.readString(example("vertx").resolve("pom.xml")).replaceAll("\\s+", ""))
                .contains(dependency.replace("spillgate-webflux-adapter", "spillgate-vertx-adapter"));
    }

    private static Path example(String adapter) {
        return ROOT.resolve("examples/minimal-" + adapter);
    }
}
