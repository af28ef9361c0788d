package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;

/** What the documentation shows, so that tests can try it. */
public final class Snippets {

    private Snippets() {}

    /** Returns what stands in a page's blocks of a language, in order. */
    public static List<String> of(Path page, String language) throws IOException {
        Pattern block = Pattern.compile("```" + language + "\\R(.*?)```", Pattern.DOTALL);
        return block.matcher(Files.readString(page))
                .results()
                .map((MatchResult found) -> found.group(1))
                .toList();
    }

    /** Compiles a source that says which class it is, in this directory, with what the tests see. */
    public static void assertCompiles(String type, String source, Path directory) throws IOException {
        Path file = directory.resolve(type + ".java");
        Files.writeString(file, source);
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter output = new StringWriter();
        boolean compiled = compiler.getTask(
                        output,
                        null,
                        null,
                        List.of("-proc:none", "-d", directory.toString(), "-cp", System.getProperty("java.class.path")),
                        null,
                        compiler.getStandardFileManager(null, null, null).getJavaFileObjects(file))
                .call();
        assertThat(compiled).as("%s%n%s", output, source).isTrue();
    }
}
