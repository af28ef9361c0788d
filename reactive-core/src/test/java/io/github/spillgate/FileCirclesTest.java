package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Files of two packages do not need each other, directly or through others. An import counts even if only Javadoc needs
 * it, because a reader follows it.
 */
class FileCirclesTest {

    private static final Path SOURCES = Path.of("src/main/java");
    private static final Pattern IMPORT = Pattern.compile("(?m)^import (?:static )?([\\w.]+)");
    private static final Pattern TYPE = Pattern.compile("\\b[A-Z]\\w*\\b");
    private static final Pattern COMMENT = Pattern.compile("(?s)//[^\\n]*|/\\*.*?\\*/");

    /** By the names of the classes, such as {@code io.github.spillgate.Limit}. */
    private final Map<String, Set<String>> uses = new HashMap<>();

    @BeforeEach
    void readAll() throws IOException {
        Map<String, String> sources = new HashMap<>();
        try (Stream<Path> files = Files.walk(SOURCES)) {
            for (Path file : files.filter(one -> one.toString().endsWith(".java"))
                    .filter(one -> !one.endsWith("package-info.java"))
                    .toList()) {
                String path = SOURCES.relativize(file).toString();
                sources.put(path.substring(0, path.lastIndexOf('.')).replace('/', '.'), Files.readString(file));
            }
        }
        sources.forEach((name, source) -> uses.put(name, usedBy(name, source, sources.keySet())));
    }

    private static Set<String> usedBy(String name, String source, Set<String> all) {
        Set<String> used = new HashSet<>();
        Matcher imports = IMPORT.matcher(source);
        while (imports.find()) {
            // An import of a nested type or of a static member begins with the name of its file.
            String imported = imports.group(1);
            all.stream()
                    .filter(one -> imported.equals(one) || imported.startsWith(one + "."))
                    .forEach(used::add);
        }
        Matcher types = TYPE.matcher(COMMENT.matcher(source).replaceAll(""));
        while (types.find()) {
            String neighbour = packageOf(name) + "." + types.group();
            if (all.contains(neighbour) && !neighbour.equals(name)) {
                used.add(neighbour);
            }
        }
        return used;
    }

    @Test
    void noCircleCrossesPackages() {
        assertThat(uses).hasSizeGreaterThan(200);
        List<String> crossing = uses.keySet().stream()
                .flatMap(from -> uses.get(from).stream()
                        .filter(to -> !packageOf(from).equals(packageOf(to))
                                && reached(to).contains(from))
                        .map(to -> from + " uses " + to + ", which needs it"))
                .sorted()
                .toList();
        assertThat(crossing).isEmpty();
    }

    private Set<String> reached(String from) {
        Set<String> reached = new HashSet<>(Set.of(from));
        Deque<String> next = new ArrayDeque<>(reached);
        while (!next.isEmpty()) {
            next.addAll(uses.get(next.remove()).stream().filter(reached::add).collect(Collectors.toSet()));
        }
        return reached;
    }

    private static String packageOf(String name) {
        return name.substring(0, name.lastIndexOf('.'));
    }
}
