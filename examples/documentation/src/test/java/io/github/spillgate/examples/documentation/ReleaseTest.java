package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Snippets;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The artifacts of {@code mvn -Prelease deploy}, in a repository that is a directory, and the minimal examples, built
 * against them with an empty local repository.
 *
 * <p>Maven runs on a copy of the sources, because this build is using the output directories of the original.
 */
@Proof
class ReleaseTest {

    private static final String GROUP = "io/github/spillgate";
    private static final String PUBLISHED = ".,reactive-core,reactive-core/bom,webflux-adapter,vertx-adapter";
    private static final String[] EVERY_JAR = {
        ".pom", ".jar", "-sources.jar", "-javadoc.jar", "-cyclonedx.json", "-cyclonedx.xml"
    };
    private static final Duration LONG = Duration.ofMinutes(15);
    private static final Duration START = Duration.ofMinutes(2);
    private static final String SNAPSHOT = "-SNAPSHOT";

    /** In the name of an uploaded snapshot, instead of SNAPSHOT. */
    private static final String TIME = "(?:[0-9.]+-[0-9]+|SNAPSHOT)";

    private static final Pattern LISTENING = Pattern.compile("(?:Netty started on port|port) ([0-9]+)");
    private static final String LISTEN = "vertx.createHttpServer().requestHandler(router).listen(8080).await();";

    @TempDir
    static Path temp;

    private static String version = "";
    private static Path repository = Path.of("");
    private static Path settings = Path.of("");

    @BeforeAll
    static void release() throws Exception {
        version = versionInPom(Pattern.compile("<artifactId>spillgate-parent</artifactId>\\s*<version>([^<]+)<"));
        repository = deploy(copy(ROOT, temp.resolve("source")), temp.resolve("repository"));
        settings = Files.writeString(temp.resolve("settings.xml"), settings());
    }

    @Test
    void onlyTheModulesForUsersArePublished() throws Exception {
        try (Stream<Path> artifacts = Files.list(repository.resolve(GROUP))) {
            assertThat(artifacts.map(artifact -> artifact.getFileName().toString()))
                    .containsExactlyInAnyOrder(
                            "spillgate-bom",
                            "spillgate-parent",
                            "spillgate-reactive-core",
                            "spillgate-vertx-adapter",
                            "spillgate-webflux-adapter");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"spillgate-reactive-core", "spillgate-vertx-adapter", "spillgate-webflux-adapter"})
    void everyJarHasSourcesJavadocAndAnSbom(String artifact) throws Exception {
        Map<String, Path> files = files(artifact);
        assertThat(files.keySet()).contains(EVERY_JAR);
        for (Path file : files.values()) {
            assertThat(Path.of(file + ".sha1")).exists();
            assertThat(Path.of(file + ".md5")).exists();
        }
        Set<String> classes = new TreeSet<>();
        for (String entry : entries(files.get(".jar"))) {
            if (entry.endsWith(".class") && !entry.contains("$")) {
                classes.add(entry.replace(".class", ".java"));
            }
        }
        assertThat(classes).hasSizeGreaterThan(5);
        assertThat(entries(files.get("-sources.jar"))).containsAll(classes);
        assertThat(entries(files.get("-javadoc.jar"))).contains("index.html", "allclasses-index.html");
    }

    @ParameterizedTest
    @ValueSource(strings = {"spillgate-reactive-core", "spillgate-vertx-adapter", "spillgate-webflux-adapter"})
    void everyJarContainsTheLicense(String artifact) throws Exception {
        String license = Files.readString(ROOT.resolve("LICENSE"));
        List<Path> jars = files(artifact).values().stream()
                .filter(file -> file.toString().endsWith(".jar"))
                .toList();
        assertThat(jars).hasSizeGreaterThanOrEqualTo(3);
        for (Path jar : jars) {
            assertThat(content(jar, "META-INF/LICENSE")).as("%s", jar).isEqualTo(license);
        }
    }

    /** Those of the core are in jars of their own. */
    @ParameterizedTest
    @ValueSource(strings = {"spillgate-reactive-core", "spillgate-vertx-adapter", "spillgate-webflux-adapter"})
    void noJarForUsersContainsTests(String artifact) throws Exception {
        for (String kind : List.of(".jar", "-sources.jar", "-javadoc.jar")) {
            assertThat(entries(files(artifact).get(kind)))
                    .noneMatch(entry -> entry.contains("Test.") || entry.contains("/testkit/"));
        }
    }

    @Test
    void theSbomListsTheDependencies() throws Exception {
        assertThat(Files.readString(files("spillgate-reactive-core").get("-cyclonedx.json")))
                .contains(
                        "pkg:maven/io.github.spillgate/spillgate-reactive-core@",
                        "pkg:maven/io.lettuce/lettuce-core@",
                        "pkg:maven/io.projectreactor/reactor-core@",
                        "pkg:maven/com.github.ben-manes.caffeine/caffeine@")
                .doesNotContain("embedded-redis");
    }

    @Test
    void theMinimalWebFluxExampleDeniesTheFourthRequest() throws Exception {
        Path project = copy(ROOT.resolve("examples/minimal-webflux"), temp.resolve("minimal-webflux"));
        buildWithEmptyRepository(project, "package");
        assertDeniesTheFourth(webflux(project), "the WebFlux example");
        assertFromStaging(project, "spillgate-webflux-adapter");
        try (RedisForTests redis = RedisForTests.startOwn()) {
            assertDeniesTheFourth(
                    webflux(
                            project,
                            "--spillgate.store=auto",
                            "--spillgate.deadline=30s",
                            "--spillgate.redis.uri=" + redis.uri()),
                    "the WebFlux example with Redis");
            assertCountedIn(redis);
        }
    }

    @Test
    void theMinimalVertxExampleDeniesTheFourthRequest() throws Exception {
        Path project = copy(ROOT.resolve("examples/minimal-vertx"), temp.resolve("minimal-vertx"));
        Path source = project.resolve("src/main/java/com/example/hello/Hello.java");
        assertThat(source).content().contains(LISTEN);
        Files.writeString(source, Files.readString(source).replace(LISTEN, listenOnAnyPort()));
        buildWithEmptyRepository(project, "compile");
        assertDeniesTheFourth(vertx(project), "the Vert.x example");
        assertFromStaging(project, "spillgate-vertx-adapter");
        try (RedisForTests redis = RedisForTests.startOwn()) {
            String local = ".setStore(StoreType.LOCAL)";
            assertThat(source).content().contains(local);
            String onRedis = ".setRedisUri(\"" + redis.uri() + "\").setDeadline(java.time.Duration.ofSeconds(30))";
            Files.writeString(source, Files.readString(source).replace(local, onRedis));
            assertDeniesTheFourth(vertx(project), "the Vert.x example with Redis");
            assertCountedIn(redis);
        }
    }

    /** Its jar needs no other library for tests, and sets nothing for other tests. The BOM gives the versions. */
    @Test
    void theContractTestsAStoreWithJUnitAndAssertJ() throws Exception {
        assertThat(entries(files("spillgate-reactive-core").get("-contract.jar")))
                .filteredOn(entry -> !entry.endsWith("/") && !entry.startsWith("META-INF/"))
                .containsExactlyInAnyOrder(
                        "io/github/spillgate/testkit/DecidedClaims.class",
                        "io/github/spillgate/testkit/LimitStoreContract.class",
                        "io/github/spillgate/testkit/Unprotected.class");
        Path project = Files.createDirectories(temp.resolve("own-store"));
        Path sources = Files.createDirectories(project.resolve("src/test/java"));
        Files.writeString(
                project.resolve("pom.xml"), """
                <project xmlns="http://maven.apache.org/POM/4.0.0">
                  <modelVersion>4.0.0</modelVersion>
                  <groupId>com.example</groupId>
                  <artifactId>own-store</artifactId>
                  <version>1.0.0</version>
                  <properties>
                    <maven.compiler.release>17</maven.compiler.release>
                    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
                  </properties>
                  <dependencyManagement>
                    <dependencies>
                      <dependency>
                        <groupId>io.github.spillgate</groupId>
                        <artifactId>spillgate-bom</artifactId>
                        <version>%s</version>
                        <type>pom</type>
                        <scope>import</scope>
                      </dependency>
                    </dependencies>
                  </dependencyManagement>
                  <dependencies>
                    <dependency>
                      <groupId>io.github.spillgate</groupId>
                      <artifactId>spillgate-reactive-core</artifactId>
                    </dependency>
                    <dependency>
                      <groupId>io.github.spillgate</groupId>
                      <artifactId>spillgate-reactive-core</artifactId>
                      <classifier>contract</classifier>
                      <scope>test</scope>
                    </dependency>
                    <dependency>
                      <groupId>org.junit.jupiter</groupId>
                      <artifactId>junit-jupiter</artifactId>
                      <version>%s</version>
                      <scope>test</scope>
                    </dependency>
                    <dependency>
                      <groupId>org.assertj</groupId>
                      <artifactId>assertj-core</artifactId>
                      <version>%s</version>
                      <scope>test</scope>
                    </dependency>
                  </dependencies>
                  <build>
                    <plugins>
                      <plugin>
                        <artifactId>maven-compiler-plugin</artifactId>
                        <version>3.16.0</version>
                      </plugin>
                      <plugin>
                        <artifactId>maven-surefire-plugin</artifactId>
                        <version>3.6.1</version>
                      </plugin>
                    </plugins>
                  </build>
                </project>
                """.formatted(version, versionInPom("junit"), versionInPom("assertj")));
        Files.writeString(sources.resolve("OwnStoreTest.java"), """
                import io.github.spillgate.local.LocalStore;
                import io.github.spillgate.spi.LimitStore;
                import io.github.spillgate.testkit.LimitStoreContract;

                class OwnStoreTest extends LimitStoreContract {
                    private final LimitStore store = LocalStore.bounded(10_000);

                    @Override
                    protected LimitStore store() {
                        return store;
                    }
                }
                """);
        buildWithEmptyRepository(project, "test");
        assertFromStaging(project, "spillgate-bom");
        assertThat(project.resolve("target/surefire-reports/TEST-OwnStoreTest.xml"))
                .content()
                .contains("noMorePermitsAreHeldThanTheLimitHas")
                .doesNotContain("<skipped");
    }

    @Test
    void publishingSaysWhatOnlyTheOwnerCanAdd() throws Exception {
        Path source = temp.resolve("source");
        Path log = source.resolve("publish.log");
        List<String> command = mavenCommand("-Dmaven.repo.local=" + localRepository(), "-Prelease,publish", "validate");
        ProcessBuilder process = process(source, command);
        List.of("CENTRAL_NAMESPACE", "CENTRAL_USERNAME", "CENTRAL_PASSWORD", "MAVEN_GPG_KEY")
                .forEach(process.environment()::remove);
        Process maven = process.redirectOutput(log.toFile()).start();
        try {
            assertThat(maven.waitFor()).isNotZero();
        } finally {
            destroy(maven);
        }
        assertThat(log)
                .content()
                .contains(
                        "expected CENTRAL_NAMESPACE=io.github.spillgate",
                        "its name in CENTRAL_USERNAME",
                        "its password in CENTRAL_PASSWORD",
                        "in MAVEN_GPG_KEY");
    }

    private static String versionInPom(String library) throws IOException {
        return versionInPom(Pattern.compile("<" + library + "\\.version>([^<]+)<"));
    }

    private static String versionInPom(Pattern element) throws IOException {
        Matcher found = element.matcher(Files.readString(ROOT.resolve("pom.xml")));
        assertThat(found.find()).as("%s", element).isTrue();
        return found.group(1);
    }

    /** In another directory, so that no path of this machine is part of a file. */
    @Test
    void aSecondBuildGivesTheSameBytes() throws Exception {
        Path second = deploy(copy(ROOT, temp.resolve("another/place")), temp.resolve("another/repository"));
        Map<String, String> first = hashes(repository);
        assertThat(first.keySet())
                .contains("spillgate-bom.pom", "spillgate-parent.pom")
                .containsAll(
                        Stream.of("spillgate-reactive-core", "spillgate-vertx-adapter", "spillgate-webflux-adapter")
                                .flatMap(artifact -> Stream.of(EVERY_JAR).map(artifact::concat))
                                .toList());
        assertThat(hashes(second)).isEqualTo(first);
    }

    private static Service webflux(Path project, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-jar",
                project.resolve("target/hello-1.0.0.jar").toString(),
                "--server.port=0",
                "--server.address=127.0.0.1"));
        command.addAll(List.of(arguments));
        return new Service(project, command);
    }

    /** The command of the page. */
    private static Service vertx(Path project) throws IOException {
        return new Service(project, mavenCommand(ofEmptyRepository(project, "compile", "exec:java")));
    }

    private static String listenOnAnyPort() {
        return "System.out.println(\"port \" + "
                + "vertx.createHttpServer().requestHandler(router).listen(0).await().actualPort());";
    }

    private static void assertDeniesTheFourth(Service started, String what) throws Exception {
        try (Service service = started) {
            ClientForTests client = ClientForTests.of(service.port());
            List<Integer> statuses = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                statuses.add(client.get("/hello").statusCode());
            }
            assertThat(statuses).as(what).containsExactly(200, 200, 200, 429);
        }
    }

    private static void assertCountedIn(RedisForTests redis) {
        RedisClient client = RedisClient.create(redis.uri());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            assertThat(connection.sync().keys("spillgate:*")).isNotEmpty();
        } finally {
            client.shutdown();
        }
    }

    private static void buildWithEmptyRepository(Path project, String goal) throws Exception {
        Path local = project.resolve("local-repository");
        assertThat(local).doesNotExist();
        maven(project, ofEmptyRepository(project, goal));
    }

    private static String[] ofEmptyRepository(Path project, String... goals) {
        return Stream.concat(
                        Stream.of(
                                "-gs",
                                settings.toString(),
                                "-Dmaven.repo.local=" + project.resolve("local-repository")),
                        Stream.of(goals))
                .toArray(String[]::new);
    }

    private static void assertFromStaging(Path project, String artifact) throws IOException {
        for (String name : List.of(artifact, "spillgate-reactive-core", "spillgate-parent")) {
            Path origin = project.resolve("local-repository")
                    .resolve(GROUP)
                    .resolve(name)
                    .resolve(version + "/_remote.repositories");
            assertThat(origin).content().contains(">staging=").doesNotContain(">cache=");
        }
    }

    private static Map<String, Path> files(String artifact) throws IOException {
        return files(repository.resolve(GROUP).resolve(artifact));
    }

    private static Map<String, Path> files(Path directory) throws IOException {
        String artifact = directory.getFileName().toString();
        Pattern inName =
                Pattern.compile("-" + (version.endsWith(SNAPSHOT) ? version.replace(SNAPSHOT, "-") + TIME : version));
        Map<String, Path> files = new TreeMap<>();
        for (Path file : Snippets.files(directory)) {
            String name = file.getFileName().toString();
            if (name.startsWith(artifact) && !name.matches(".*\\.(?:md5|sha1|sha256|sha512)")) {
                files.put(inName.matcher(name.substring(artifact.length())).replaceFirst(""), file);
            }
        }
        return files;
    }

    private static Set<String> entries(Path jar) throws IOException {
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            Set<String> entries = new TreeSet<>();
            zip.stream().forEach(entry -> entries.add(entry.getName()));
            return entries;
        }
    }

    private static String content(Path jar, String name) throws IOException {
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            ZipEntry entry = zip.getEntry(name);
            assertThat(entry).as("%s in %s", name, jar).isNotNull();
            return new String(zip.getInputStream(entry).readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** Returns the hash of each uploaded file, by its name without the version. */
    private static Map<String, String> hashes(Path repository) throws Exception {
        Map<String, String> hashes = new TreeMap<>();
        try (Stream<Path> artifacts = Files.list(repository.resolve(GROUP))) {
            for (Path artifact : artifacts.toList()) {
                for (Map.Entry<String, Path> file : files(artifact).entrySet()) {
                    byte[] hash = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file.getValue()));
                    hashes.put(
                            artifact.getFileName() + file.getKey(),
                            HexFormat.of().formatHex(hash));
                }
            }
        }
        return hashes;
    }

    /**
     * Returns Maven's global settings, because those of the user may name a mirror: the published artifacts, and a
     * cache of what has been downloaded already. All else is downloaded.
     */
    private static String settings() {
        String repositories = "";
        for (String kind : List.of("repository", "pluginRepository")) {
            String plural = kind.replace("ory", "ories");
            repositories += """
                    <%2$s>
                      <%1$s><id>staging</id><url>%3$s</url><snapshots><enabled>true</enabled></snapshots></%1$s>
                      <%1$s><id>cache</id><url>%4$s</url><snapshots><enabled>false</enabled></snapshots></%1$s>
                    </%2$s>
                    """.formatted(
                            kind, plural, repository.toUri(), localRepository().toUri());
        }
        return """
                <settings>
                  <profiles><profile><id>published</id>%s</profile></profiles>
                  <activeProfiles><activeProfile>published</activeProfile></activeProfiles>
                </settings>
                """.formatted(repositories);
    }

    private static Path localRepository() {
        return Path.of(System.getProperty("spillgate.tests.local-repository"));
    }

    private static Path deploy(Path source, Path repository) throws Exception {
        maven(
                source,
                "-Prelease",
                "-DskipTests",
                "-Dmaven.install.skip=true",
                "-DaltDeploymentRepository=staging::" + repository.toUri(),
                "-Dmaven.repo.local=" + localRepository(),
                "-pl",
                PUBLISHED,
                "deploy");
        return repository;
    }

    private static void maven(Path directory, String... arguments) throws Exception {
        Path log = directory.resolve("maven.log");
        Process maven = process(directory, mavenCommand(arguments))
                .redirectOutput(log.toFile())
                .start();
        try {
            assertThat(maven.waitFor(LONG.toSeconds(), TimeUnit.SECONDS))
                    .as("Maven has ended: %s", log)
                    .isTrue();
        } finally {
            destroy(maven);
        }
        assertThat(maven.exitValue()).as(Files.readString(log)).isZero();
    }

    private static List<String> mavenCommand(String... arguments) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("spillgate.tests.maven"), "bin", "mvn")
                        .toString(),
                "-B",
                "-q"));
        command.addAll(List.of(arguments));
        return command;
    }

    /** Without the checks that CI has made already. */
    private static ProcessBuilder process(Path directory, List<String> command) {
        ProcessBuilder process = new ProcessBuilder(command).directory(directory.toFile());
        process.environment().remove("CI");
        process.environment().put("JAVA_HOME", System.getProperty("java.home"));
        return process.redirectErrorStream(true);
    }

    private static void destroy(Process process) {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly().onExit().join();
    }

    private static Path copy(Path from, Path to) throws IOException {
        for (Path file : Snippets.files(from)) {
            Path copy = to.resolve(from.relativize(file));
            Files.createDirectories(copy.getParent());
            Files.copy(file, copy);
        }
        return to;
    }

    /** A running example. */
    private static final class Service implements AutoCloseable {

        private final Path log;
        private final Process process;

        Service(Path directory, List<String> command) throws IOException {
            log = Files.createTempFile(directory, "service", ".log");
            process = process(directory, command).redirectOutput(log.toFile()).start();
        }

        int port() {
            return Awaitility.await()
                    .atMost(START)
                    .failFast(() -> assertThat(process.isAlive()).as(read()).isTrue())
                    .until(
                            () -> {
                                Matcher port = LISTENING.matcher(read());
                                return port.find() ? Integer.parseInt(port.group(1)) : 0;
                            },
                            port -> port > 0);
        }

        private String read() {
            try {
                return Files.readString(log);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void close() {
            destroy(process);
        }
    }
}
