package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.w3c.dom.Element;
import org.w3c.dom.Node;
import org.w3c.dom.NodeList;

/** The POMs that are published: what a repository requires of them, their versions, the BOM; and the workflows. */
class PublishedPomsTest {

    private static final Pattern FRAMEWORK = Pattern.compile("<(vertx|spring-boot)\\.version>([0-9.]+)<");
    /** For Maven or for Gradle. */
    private static final Pattern DEPENDENCY =
            Pattern.compile("\\bspillgate-[a-z-]+(?:</artifactId>\\s*<version>|:)(?<version>\\w[\\w.-]*)");

    private static final Pattern PLUGIN = Pattern.compile(
            "<artifactId>([a-z-]+-maven-plugin|maven-[a-z]+-plugin)</artifactId>\\s*<version>([0-9.]+)<");

    private static final Path PARENT = ROOT.resolve("pom.xml");
    private static final Path BOM = ROOT.resolve("reactive-core/bom/pom.xml");

    @Test
    void everyPomHasANameAndADescription() throws Exception {
        List<Path> published = published();
        assertThat(published).hasSizeGreaterThan(3);
        for (Path pom : published) {
            assertThat(text(xml(pom), "name")).as("%s", pom).startsWith("Spillgate");
            assertThat(text(xml(pom), "description")).as("%s", pom).isNotBlank();
        }
    }

    /** The other POMs inherit the license from the parent. */
    @Test
    void theParentAndTheBomHaveTheSameLicenseAndGroup() throws Exception {
        for (Path pom : List.of(PARENT, BOM)) {
            assertThat(text(xml(pom), "groupId")).isEqualTo("io.github.spillgate");
            assertThat(text(child(child(xml(pom), "licenses"), "license"), "name"))
                    .isEqualTo("Apache-2.0");
        }
    }

    /** The publisher adds these elements before a release. The profile "publish" checks only the parent. */
    @ParameterizedTest
    @ValueSource(strings = {"url", "scm", "developers"})
    void theBomHasWhatThePublisherAddsToTheParent(String name) throws Exception {
        assertThat(content(BOM, name)).isEqualTo(content(PARENT, name));
    }

    @Test
    void allPomsHaveTheVersionOfTheParent() throws Exception {
        String version = text(xml(PARENT), "version");
        assertThat(text(xml(BOM), "version")).isEqualTo(version);
        for (Path pom : modules()) {
            if (!pom.equals(BOM)) {
                assertThat(text(child(xml(pom), "parent"), "version"))
                        .as("%s", pom)
                        .isEqualTo(version);
            }
        }
    }

    /** Readers copy them; the minimal examples are not modules. */
    @Test
    void pagesAndMinimalExamplesHaveTheVersionOfTheParent() throws Exception {
        List<Path> files = new ArrayList<>(Snippets.pages());
        files.add(ROOT.resolve("examples/minimal-webflux/pom.xml"));
        files.add(ROOT.resolve("examples/minimal-vertx/pom.xml"));
        int dependencies = 0;
        for (Path file : files) {
            Matcher dependency = DEPENDENCY.matcher(Files.readString(file));
            for (; dependency.find(); dependencies++) {
                assertThat(dependency.group("version"))
                        .as("%s in %s", dependency.group(), file)
                        .isEqualTo(text(xml(PARENT), "version"));
            }
        }
        assertThat(dependencies).isGreaterThan(6);
    }

    /** The driver of PostgreSQL brings older versions of Reactor and Netty. */
    @ParameterizedTest
    @CsvSource({"r2dbc-postgresql, r2dbc-postgresql", "reactor-core, reactor", "reactor-netty-core, reactor-netty"})
    void thePageOnPostgresHasTheVersionsThatAreTested(String artifact, String property) throws Exception {
        String version = text(child(xml(PARENT), "properties"), property + ".version");
        assertThat(Files.readString(ROOT.resolve("docs/postgres.md")))
                .containsPattern("<artifactId>" + artifact + "</artifactId>\\s*<version>" + version + "</version>");
    }

    @Test
    void theBomListsEveryPublishedJar() throws Exception {
        List<String> listed = new ArrayList<>();
        NodeList dependencies = xml(BOM).getElementsByTagName("dependency");
        for (int i = 0; i < dependencies.getLength(); i++) {
            Element dependency = (Element) dependencies.item(i);
            assertThat(text(dependency, "version")).isEqualTo("${project.version}");
            if (dependency.getElementsByTagName("classifier").getLength() == 0) {
                listed.add(text(dependency, "artifactId"));
            }
        }
        List<String> jars = new ArrayList<>();
        for (Path pom : published()) {
            if (xml(pom).getElementsByTagName("packaging").getLength() == 0) {
                jars.add(text(xml(pom), "artifactId"));
            }
        }
        assertThat(jars).hasSize(3);
        assertThat(listed).containsExactlyInAnyOrderElementsOf(jars);
    }

    /** An import of the BOM must not bring versions of other libraries. */
    @Test
    void theBomHasNoParent() throws Exception {
        assertThat(xml(BOM).getElementsByTagName("parent").getLength()).isZero();
    }

    /** It inherits nothing, so it has copies of the plugins that sign and upload. */
    @Test
    void theBomPublishesWithThePluginsOfTheParent() throws Exception {
        String parent = Files.readString(PARENT);
        Matcher plugin = PLUGIN.matcher(Files.readString(BOM));
        int plugins = 0;
        for (; plugin.find(); plugins++) {
            assertThat(parent).containsPattern(plugin.group(1) + "</artifactId>\\s*<version>" + plugin.group(2) + "<");
        }
        assertThat(plugins).isEqualTo(4);
    }

    /** A tag can be moved to other code; a hash cannot. */
    @Test
    void workflowsUseActionsByHash() throws Exception {
        int actions = 0;
        for (Path workflow : Snippets.files(ROOT.resolve(".github/workflows"))) {
            for (String line : Files.readAllLines(workflow)) {
                if (line.matches(".*\\buses: .*")) {
                    assertThat(line).matches(" *(- )?uses: [\\w./-]+@[0-9a-f]{40} # v\\d+\\.\\d+\\.\\d+");
                    actions++;
                }
            }
        }
        assertThat(actions).isGreaterThan(10);
    }

    @Test
    void theCompatibilityPageListsTheVersionsOfAllProfiles() throws Exception {
        String page = Files.readString(ROOT.resolve("docs/compatibility.md"));
        Matcher version = FRAMEWORK.matcher(Files.readString(PARENT));
        int versions = 0;
        for (; version.find(); versions++) {
            String name = version.group(1).equals("vertx") ? "Vert.x" : "Spring Boot";
            assertThat(page).contains("| " + name + " " + version.group(2) + " <!--");
        }
        assertThat(versions).isEqualTo(4);
    }

    private static List<Path> published() throws Exception {
        List<Path> published = new ArrayList<>(List.of(PARENT));
        for (Path pom : modules()) {
            if (!Files.readString(pom).contains("<maven.deploy.skip>true</maven.deploy.skip>")) {
                published.add(pom);
            }
        }
        return published;
    }

    private static List<Path> modules() throws Exception {
        NodeList modules = xml(PARENT).getElementsByTagName("module");
        return Stream.iterate(0, i -> i + 1)
                .limit(modules.getLength())
                .map(i -> ROOT.resolve(modules.item(i).getTextContent()).resolve("pom.xml"))
                .toList();
    }

    private static Element xml(Path pom) throws Exception {
        try {
            return DocumentBuilderFactory.newInstance()
                    .newDocumentBuilder()
                    .parse(pom.toFile())
                    .getDocumentElement();
        } catch (IOException e) {
            throw new AssertionError(pom + " is a module of the parent, but cannot be read", e);
        }
    }

    private static String text(Element element, String name) {
        return child(element, name).getTextContent();
    }

    /** Returns the text of an element with single spaces; empty if there is none. */
    private static String content(Path pom, String name) throws Exception {
        return children(xml(pom), name)
                .map(element -> element.getTextContent().replaceAll("\\s+", " ").strip())
                .collect(Collectors.joining());
    }

    private static Element child(Element element, String name) {
        return children(element, name)
                .findFirst()
                .orElseThrow(() -> new AssertionError(element.getTagName() + " has no " + name));
    }

    private static Stream<Element> children(Element element, String name) {
        return Stream.iterate(element.getFirstChild(), Objects::nonNull, Node::getNextSibling)
                .filter(child -> child.getNodeName().equals(name))
                .map(Element.class::cast);
    }
}
