package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** What the documentation shows, so that tests can try it. */
public final class Snippets {

    /** The directory of the whole project, from whichever module a test runs in. */
    public static final Path ROOT = root();

    private static final Pattern BLOCK = Pattern.compile("(?m)^```(.*)\\R((?s:.*?))^```$");

    private static final Pattern TYPE = Pattern.compile("(?m)^(?:public )?(?:final )?(?:class|record) (\\w+)");

    private static final Set<String> TRANSIENT = Set.of("target", ".git");

    private static final JavaCompiler COMPILER = ToolProvider.getSystemJavaCompiler();

    /** One for all, because it reads each jar of the class path only once. */
    private static final StandardJavaFileManager FILES = COMPILER.getStandardFileManager(null, null, null);

    private Snippets() {}

    private static Path root() {
        Path module = Path.of("").toAbsolutePath();
        for (Path directory = module; directory != null; directory = directory.getParent()) {
            if (Files.exists(directory.resolve("docs/CONTRIBUTING.md"))) {
                return directory;
            }
        }
        throw new IllegalStateException(module + " is in no directory that has docs/CONTRIBUTING.md");
    }

    /**
     * A block of a page: its kind is the language, and the module that tries it, if that is not the core:
     * {@code java vertx}.
     */
    public record Snippet(Path page, int line, String kind, String text) {

        /** Where it stands, for the name of a test. */
        public String place() {
            return ROOT.relativize(page.toAbsolutePath().normalize()) + ":" + line;
        }

        /** Whether it is a whole file: with a package or imports, to be saved as it stands. */
        public boolean isFile() {
            return text.startsWith("import ") || text.startsWith("package ");
        }

        /** Returns the class that a {@linkplain #isFile() file} declares, or another name for what is no file. */
        public String type(String otherwise) {
            Matcher type = TYPE.matcher(text);
            return isFile() && type.find() ? type.group(1) : otherwise;
        }

        /** Whether a source has just these lines, one after the other, at whatever indentation. */
        public boolean standsIn(String source) {
            List<String> shown = text.lines().toList();
            List<String> lines = source.lines().toList();
            for (int from = 0; from + shown.size() <= lines.size(); from++) {
                String first = lines.get(from);
                String indentation =
                        first.substring(0, first.length() - first.stripLeading().length());
                if (indented(shown, indentation).equals(lines.subList(from, from + shown.size()))) {
                    return true;
                }
            }
            return false;
        }

        private static List<String> indented(List<String> lines, String indentation) {
            return lines.stream()
                    .map(line -> line.isEmpty() ? line : indentation + line)
                    .toList();
        }
    }

    /** Returns all pages of the project that are written by hand, with {@code llms.txt}, which is Markdown too. */
    public static List<Path> pages() throws IOException {
        List<Path> pages = new ArrayList<>();
        try (Stream<Path> top = Files.list(ROOT)) {
            top.forEach(pages::add);
        }
        for (String name : List.of("docs", "examples", ".github")) {
            Path directory = ROOT.resolve(name);
            if (Files.isDirectory(directory)) {
                pages.addAll(files(directory));
            }
        }
        return pages.stream()
                .filter(page -> page.toString().endsWith(".md") || page.endsWith("llms.txt"))
                .sorted()
                .toList();
    }

    /** Returns the sources of the tests of all modules, and of the examples that the tests run. */
    public static List<String> testedSources() throws IOException {
        List<String> sources = new ArrayList<>();
        for (Path module : modules()) {
            for (Path file : files(module)) {
                if (isTested(file)) {
                    sources.add(Files.readString(file));
                }
            }
        }
        return sources;
    }

    /** Returns the files below a directory, but for those of builds and of Git, which come and go while tests run. */
    public static List<Path> files(Path directory) throws IOException {
        List<Path> files = new ArrayList<>();
        Files.walkFileTree(directory, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path entered, BasicFileAttributes attributes) {
                return TRANSIENT.contains(String.valueOf(entered.getFileName()))
                        ? FileVisitResult.SKIP_SUBTREE
                        : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                files.add(file);
                return FileVisitResult.CONTINUE;
            }
        });
        return files;
    }

    private static boolean isTested(Path file) {
        String path = ROOT.relativize(file).toString().replace('\\', '/');
        return path.endsWith(".java") && (path.contains("/src/test/") || path.startsWith("examples/grpc/src/main/"));
    }

    private static List<Path> modules() throws IOException {
        List<Path> modules = new ArrayList<>();
        for (Path parent : List.of(ROOT, ROOT.resolve("examples"))) {
            try (Stream<Path> children = Files.list(parent)) {
                children.filter(Files::isDirectory).forEach(modules::add);
            }
        }
        return modules;
    }

    /** Returns what stands in the blocks of all pages that are of a kind, page by page and in order. */
    public static List<Snippet> all(String kind) throws IOException {
        return all().stream().filter(snippet -> snippet.kind().equals(kind)).toList();
    }

    public static List<Snippet> all() throws IOException {
        List<Snippet> all = new ArrayList<>();
        for (Path page : pages()) {
            all.addAll(on(page));
        }
        return all;
    }

    private static List<Snippet> on(Path page) throws IOException {
        List<Snippet> all = new ArrayList<>();
        String text = Files.readString(page);
        Matcher block = BLOCK.matcher(text);
        while (block.find()) {
            int line = (int) text.substring(0, block.start()).lines().count() + 1;
            all.add(new Snippet(page, line, block.group(1).strip(), block.group(2)));
        }
        return all;
    }

    /** Returns what stands in a page's blocks of a kind, in order. */
    public static List<String> of(Path page, String kind) throws IOException {
        return on(page).stream()
                .filter(snippet -> snippet.kind().equals(kind))
                .map(Snippet::text)
                .toList();
    }

    /** Compiles a source that says which class it is, in this directory, with what the tests see. */
    public static void assertCompiles(String type, String source, Path directory) throws IOException {
        Path file = directory.resolve(type + ".java");
        Files.writeString(file, source);
        StringWriter output = new StringWriter();
        boolean compiled = COMPILER.getTask(
                        output,
                        FILES,
                        null,
                        List.of("-proc:none", "-d", directory.toString(), "-cp", System.getProperty("java.class.path")),
                        null,
                        FILES.getJavaFileObjects(file))
                .call();
        assertThat(compiled).as("%s%n%s", output, source).isTrue();
    }
}
