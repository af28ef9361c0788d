package io.github.spillgate.examples.documentation.seeds;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;

/** A page of docs/background/seeds. Tests take their limits from the page, so that they compare what it shows. */
final class Page {

    private final Path path;

    private Page(Path path) {
        this.path = path;
    }

    static Page of(String name) {
        return new Page(Snippets.ROOT.resolve("docs/background/seeds").resolve(name));
    }

    /** Returns the limit of this text, which must be in the settings or the code of the page. */
    Limit limit(String text) {
        assertThat(shown()).as(path.toString()).containsPattern("[\" ]\\Q" + text + "\\E[\",\\n]");
        return Limit.parse(text);
    }

    private String shown() {
        try {
            return String.join("", Snippets.of(path, "yaml")) + String.join("", Snippets.of(path, "java"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
