package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jetbrains.kotlin.cli.common.ExitCode;
import org.jetbrains.kotlin.cli.jvm.K2JVMCompiler;

/** Kotlin that tests compile; apart from {@link Snippets}, because not every module has its compiler. */
public final class KotlinSource {

    private KotlinSource() {}

    /** Compiles a source in this directory, with what the tests see. */
    public static void assertCompiles(String name, String source, Path directory) throws IOException {
        Path file = directory.resolve(name + ".kt");
        Files.writeString(file, source);
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ExitCode result = new K2JVMCompiler()
                .exec(
                        new PrintStream(output, true, StandardCharsets.UTF_8),
                        "-no-stdlib",
                        "-no-reflect",
                        "-Werror",
                        "-classpath",
                        classPath(),
                        "-d",
                        directory.toString(),
                        file.toString());
        assertThat(result)
                .as("%s%n%s", output.toString(StandardCharsets.UTF_8), source)
                .isEqualTo(ExitCode.OK);
    }

    /** What the tests see, without directories that do not exist: the compiler warns of those. */
    private static String classPath() {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(entry -> Files.exists(Path.of(entry)))
                .collect(Collectors.joining(File.pathSeparator));
    }
}
