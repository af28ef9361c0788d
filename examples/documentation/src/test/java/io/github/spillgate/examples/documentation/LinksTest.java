package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The targets of all links in the documentation. */
class LinksTest {

    private static final Pattern BLOCK = Pattern.compile("(?ms)^```.*?^```$");

    private static final Pattern CODE = Pattern.compile("`[^`\\n]+`");

    /** A link or an image; a link around an image has two matches. */
    private static final Pattern LINK = Pattern.compile("]\\(([^()\\s]+)(?: \"[^\"]*\")?\\)");

    /** The start of any target, also of one that LINK does not match. */
    private static final Pattern TARGET = Pattern.compile("]\\(");

    private static final Pattern IMAGE = Pattern.compile("(?:src|srcset|href)=\"([^\"]+)\"");

    private static final Pattern BY_NAME = Pattern.compile("(?m)(^\\[[^\\]]+]: |]\\[[^\\]]*])");

    private static final Pattern HEADING = Pattern.compile("(?m)^#{1,6} +(.+?) *#*$");

    private static final Pattern IN_SOURCE = Pattern.compile("\\bdocs/[\\w./-]+\\.(?:md|svg|csv|png)(?:#[\\w-]+)?");

    private static final Pattern CLASS = Pattern.compile("`([A-Z][a-z]\\w+)`");

    private final Map<Path, Set<String>> anchors = new HashMap<>();

    @TestFactory
    Stream<DynamicTest> linksOnPagesResolve() throws IOException {
        List<Path> pages = Snippets.pages();
        assertThat(pages).hasSizeGreaterThan(30);
        return pages.stream()
                .map(page -> DynamicTest.dynamicTest(ROOT.relativize(page).toString(), () -> assertLinksResolve(page)));
    }

    @Test
    void pagesNamedInSourcesExist() throws IOException {
        Set<String> named = new TreeSet<>();
        for (Path source : sources()) {
            IN_SOURCE
                    .matcher(Files.readString(source))
                    .results()
                    .map(MatchResult::group)
                    .forEach(named::add);
        }
        assertThat(named).isNotEmpty();
        for (String link : named) {
            assertResolves(ROOT.resolve("a page"), link);
        }
    }

    /** Readers of the architecture search for the classes that it names. */
    @Test
    void classesNamedInTheArchitectureExist() throws IOException {
        Set<String> classes = new HashSet<>();
        sources().forEach(file -> classes.add(file.getFileName().toString().replace(".java", "")));
        List<String> named = CLASS.matcher(Files.readString(ROOT.resolve("docs/architecture.md")))
                .results()
                .map(found -> found.group(1))
                .toList();
        assertThat(named).hasSizeGreaterThan(30);
        assertThat(classes).containsAll(named);
    }

    @Test
    void everyPageIsReachableFromTheReadme() throws IOException {
        Set<Path> found = new HashSet<>();
        follow(ROOT.resolve("README.md"), found);
        Set<Path> pages = new HashSet<>(Snippets.pages());
        pages.removeIf(page -> page.startsWith(ROOT.resolve(".github")));
        assertThat(found).containsAll(pages);
    }

    /** GitHub makes anchors of headings in this way. */
    @Test
    void anchorsAreMadeOfHeadings() {
        assertThat(anchorsOf("""
                # A key, or none?
                ## `Limit.parse` reads *it*
                ```sh
                # not one
                ```
                ## Twice
                ## Twice
                ### [A link](there.md) – and a dash
                """))
                .containsExactlyInAnyOrder(
                        "a-key-or-none", "limitparse-reads-it", "twice", "twice-1", "a-link--and-a-dash");
    }

    private void follow(Path page, Set<Path> found) throws IOException {
        if (!found.add(page) || !page.toString().endsWith(".md")) {
            return;
        }
        for (String link : links(page)) {
            if (!isElsewhere(link)) {
                Path there = target(page, link);
                Path index = there.resolve("README.md");
                follow(Files.exists(index) ? index : there, found);
            }
        }
    }

    private void assertLinksResolve(Path page) throws IOException {
        String text = prose(page);
        assertThat(BY_NAME.matcher(text).find())
                .as("reference links, which this test does not follow")
                .isFalse();
        assertThat(LINK.matcher(text).results().count())
                .as("links that this test can parse: without spaces, parentheses or line breaks")
                .isEqualTo(TARGET.matcher(text).results().count());
        for (String link : links(page)) {
            if (isElsewhere(link)) {
                assertThat(URI.create(link).getHost()).as(link).contains(".");
            } else {
                assertResolves(page, link);
            }
        }
    }

    private void assertResolves(Path page, String link) throws IOException {
        Path there = target(page, link);
        assertThat(there).as("%s, in %s", link, ROOT.relativize(page)).exists().startsWith(ROOT);
        int hash = link.indexOf('#');
        if (hash >= 0) {
            assertThat(anchors(there))
                    .as("%s, in %s", link, ROOT.relativize(page))
                    .contains(link.substring(hash + 1));
        }
    }

    private static Path target(Path page, String link) {
        String path = link.replaceFirst("#.*", "");
        return path.isEmpty() ? page : page.resolveSibling(path).normalize();
    }

    private static boolean isElsewhere(String link) {
        return link.matches("[a-z]+:.*");
    }

    private static List<String> links(Path page) throws IOException {
        String text = prose(page);
        return Stream.of(LINK, IMAGE)
                .flatMap(pattern -> pattern.matcher(text).results())
                .map(found -> found.group(1))
                .toList();
    }

    /** Replaces code, which contains no links. */
    private static String prose(Path page) throws IOException {
        return CODE.matcher(BLOCK.matcher(Files.readString(page)).replaceAll(""))
                .replaceAll("code");
    }

    private Set<String> anchors(Path page) throws IOException {
        Set<String> known = anchors.get(page);
        if (known == null) {
            known = anchorsOf(Files.readString(page));
            anchors.put(page, known);
        }
        return known;
    }

    private static Set<String> anchorsOf(String text) {
        Set<String> all = new HashSet<>();
        HEADING.matcher(BLOCK.matcher(text).replaceAll("")).results().forEach(found -> {
            String anchor = found.group(1)
                    .replaceAll("\\[([^\\]]*)]\\([^)]*\\)", "$1")
                    .toLowerCase(Locale.ROOT)
                    .replaceAll("[^\\p{L}\\p{N} _-]", "")
                    .replace(' ', '-');
            String one = anchor;
            for (int i = 1; !all.add(one); i++) {
                one = anchor + "-" + i;
            }
        });
        return all;
    }

    private static List<Path> sources() throws IOException {
        return Snippets.files(ROOT).stream()
                .filter(file -> file.toString().matches(".*\\.(java|lua|xml|ya?ml|js|kt|html)"))
                .toList();
    }
}
