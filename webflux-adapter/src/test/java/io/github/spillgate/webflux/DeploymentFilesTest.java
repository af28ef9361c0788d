package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.Snippets;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.StoreType;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.boot.env.YamlPropertySourceLoader;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.MutablePropertySources;
import org.springframework.core.env.PropertySource;
import org.springframework.core.io.ByteArrayResource;
import org.springframework.core.io.FileSystemResource;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** The files for Docker Compose, Kubernetes, Prometheus and Grafana: their syntax, their references and settings. */
class DeploymentFilesTest {

    private static final Path DEPLOYMENT = Snippets.ROOT.resolve("examples/deployment");
    private static final Path OBSERVABILITY = Snippets.ROOT.resolve("examples/observability");

    @Test
    void theSettingsOfComposeStartAService() throws IOException {
        assertStarts(Files.readString(DEPLOYMENT.resolve("application.yaml")));
    }

    @Test
    void theSettingsOfKubernetesStartAService() throws IOException {
        Map<String, Object> settings = one(kubernetes(), "ConfigMap");
        assertStarts(string(settings, "data", "application.yaml"));
    }

    @Test
    void composeMountsExistingFilesAndItsProxyIsTrusted() throws IOException {
        Map<String, Object> compose = yaml(DEPLOYMENT.resolve("compose.yaml")).get(0);
        Set<String> mounted = new HashSet<>();
        for (Object service : map(compose, "services").values()) {
            for (Object volume : list(service, "volumes")) {
                String file = volume.toString().split(":", -1)[0];
                mounted.add(file);
                assertThat(DEPLOYMENT.resolve(file)).exists();
            }
        }
        assertThat(mounted).hasSize(2);
        String context = string(compose, "services", "hello", "build", "context");
        String dockerfile = string(compose, "services", "hello", "build", "dockerfile");
        assertThat(DEPLOYMENT.resolve(context).resolve(dockerfile)).exists();
        assertThat(string(
                        yaml(DEPLOYMENT.resolve("application.yaml")).get(0),
                        "spillgate",
                        "client-address",
                        "trusted-proxies"))
                .isEqualTo(string(compose, "services", "proxy", "networks", "default", "ipv4_address"));
    }

    /** Spring Boot reads the settings in the jar too, such as the store of the example. */
    @Test
    void theInstancesOfComposeCountInRedis() throws IOException {
        MutablePropertySources sources = new MutablePropertySources();
        for (Path file : List.of(
                DEPLOYMENT.resolve("application.yaml"),
                Snippets.ROOT.resolve("examples/minimal-webflux/src/main/resources/application.yaml"))) {
            new YamlPropertySourceLoader()
                    .load(file.toString(), new FileSystemResource(file))
                    .forEach(sources::addLast);
        }
        Binder settings = new Binder(ConfigurationPropertySources.from(sources));
        assertThat(settings.bind("spillgate.store", StoreType.class).orElse(StoreType.AUTO))
                .isEqualTo(StoreType.AUTO);
        assertThat(settings.bind("spillgate.redis.uri", String.class).get()).isEqualTo("redis://redis:6379");
    }

    /** The image contains the artifact of the minimal example. */
    @Test
    void theImageContainsTheJarThatTheExampleBuilds() throws IOException {
        String pom = Files.readString(Snippets.ROOT.resolve("examples/minimal-webflux/pom.xml"));
        assertThat(pom).contains("<artifactId>hello</artifactId>\n  <version>1.0.0</version>");
        assertThat(DEPLOYMENT.resolve("Dockerfile")).content().contains("target/hello-1.0.0.jar");
    }

    @Test
    void selectorsPortsAndReferencesOfKubernetesMatch() throws IOException {
        List<Map<String, Object>> all = kubernetes();
        assertThat(all)
                .allSatisfy(
                        object -> assertThat(string(object, "metadata", "name")).isEqualTo("hello"));
        Map<String, Object> deployment = one(all, "Deployment");
        Map<String, Object> labels = map(deployment, "spec", "template", "metadata", "labels");
        assertThat(map(deployment, "spec", "selector", "matchLabels")).isEqualTo(labels);
        assertThat(map(one(all, "Service"), "spec", "selector")).isEqualTo(labels);
        assertThat(map(one(all, "NetworkPolicy"), "spec", "podSelector", "matchLabels"))
                .isEqualTo(labels);
        assertThat(map(one(all, "PodDisruptionBudget"), "spec", "selector", "matchLabels"))
                .isEqualTo(labels);
        Object container =
                list(map(deployment, "spec", "template", "spec"), "containers").get(0);
        Set<Object> ports = new HashSet<>();
        list(container, "ports").forEach(port -> ports.add(map(port).get("name")));
        for (String probe : List.of("startupProbe", "livenessProbe", "readinessProbe")) {
            assertThat(ports).contains(map(container, probe, "httpGet").get("port"));
        }
        assertThat(map(list(map(one(all, "Service"), "spec"), "ports").get(0)).get("targetPort"))
                .isIn(ports);
        assertThat(string(one(all, "ConfigMap"), "data", "application.yaml")).contains("port: 8081", "${REDIS_URI}");
        assertThat(map(one(all, "Secret"), "stringData")).containsKey("redis-uri");
    }

    @Test
    void eachAlertNamesItsParagraph() throws IOException {
        Set<String> alerts = new HashSet<>();
        for (Object group : list(yaml(OBSERVABILITY.resolve("alerts.yml")).get(0), "groups")) {
            for (Object rule : list(group, "rules")) {
                String alert = string(map(rule), "alert");
                assertThat(alerts.add(alert)).as(alert).isTrue();
                assertThat(string(map(rule), "annotations", "runbook"))
                        .isEqualTo("docs/alerts.md#" + alert.toLowerCase(Locale.ROOT));
            }
        }
        assertThat(alerts).hasSizeGreaterThan(5);
        List<String> headings = Files.readString(Snippets.ROOT.resolve("docs/alerts.md"))
                .lines()
                .filter(line -> line.startsWith("## "))
                .map(line -> line.substring(3))
                .toList();
        assertThat(headings).containsExactlyInAnyOrderElementsOf(alerts);
        assertThat(Files.readString(OBSERVABILITY.resolve("alerts.test.yml")))
                .as("each alert has a test")
                .contains(alerts.stream().map(alert -> "alertname: " + alert).toList());
    }

    @Test
    void panelsOfTheDashboardHaveQueriesAndSeparatePlaces() throws IOException {
        Map<String, Object> dashboard =
                yaml(OBSERVABILITY.resolve("grafana-dashboard.json")).get(0);
        Set<Object> ids = new HashSet<>();
        Set<String> places = new HashSet<>();
        for (Object panel : list(dashboard, "panels")) {
            assertThat(ids.add(map(panel).get("id"))).as("%s", panel).isTrue();
            assertThat(places.add(map(panel, "gridPos").get("x") + ","
                            + map(panel, "gridPos").get("y")))
                    .as("%s", panel)
                    .isTrue();
            if (!"row".equals(map(panel).get("type"))) {
                assertThat(list(panel, "targets")).isNotEmpty();
            }
        }
        assertThat(ids).hasSizeGreaterThan(10);
    }

    /** Unknown settings are errors here, though Spring ignores them; those of rules prevent the start. */
    private static void assertStarts(String settings) throws IOException {
        MutablePropertySources sources = new MutablePropertySources();
        new YamlPropertySourceLoader()
                .load("settings", new ByteArrayResource(settings.getBytes(StandardCharsets.UTF_8)))
                .forEach(sources::addLast);
        Set<String> known = known();
        for (PropertySource<?> source : sources) {
            assertThat(((EnumerablePropertySource<?>) source).getPropertyNames())
                    .filteredOn(name -> !name.startsWith("spillgate.rules["))
                    .allSatisfy(name -> assertThat(known).contains(name.replaceAll("\\[\\d+]", "")));
        }
        sources.addFirst(new MapPropertySource("environment", Map.of("REDIS_URI", "redis://127.0.0.1:6379")));
        new ReactiveWebApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        HttpHandlerAutoConfiguration.class,
                        WebFluxAutoConfiguration.class,
                        SpillgateAutoConfiguration.class))
                .withInitializer(
                        context -> sources.forEach(context.getEnvironment().getPropertySources()::addLast))
                .withPropertyValues("spillgate.store=local")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(context.getBean(Rules.class).list()).hasSize(1);
                });
    }

    /** Returns the settings of Spring Boot and of the limiter. */
    private static Set<String> known() throws IOException {
        Set<String> known = new HashSet<>();
        for (URL metadata : Collections.list(DeploymentFilesTest.class
                .getClassLoader()
                .getResources("META-INF/spring-configuration-metadata.json"))) {
            try (InputStream in = metadata.openStream()) {
                // The processor of Spring Boot escapes slashes, which YAML does not know.
                Object all = parser().load(new String(in.readAllBytes(), StandardCharsets.UTF_8).replace("\\/", "/"));
                list(all, "properties").forEach(property -> known.add(string(map(property), "name")));
            }
        }
        assertThat(known).hasSizeGreaterThan(100);
        return known;
    }

    private static List<Map<String, Object>> kubernetes() throws IOException {
        return yaml(DEPLOYMENT.resolve("kubernetes.yaml"));
    }

    private static Map<String, Object> one(List<Map<String, Object>> all, String kind) {
        List<Map<String, Object>> found =
                all.stream().filter(object -> kind.equals(object.get("kind"))).toList();
        assertThat(found).as(kind).hasSize(1);
        return found.get(0);
    }

    private static List<Map<String, Object>> yaml(Path file) throws IOException {
        List<Map<String, Object>> documents = new ArrayList<>();
        parser().loadAll(Files.readString(file)).forEach(document -> documents.add(map(document)));
        assertThat(documents).isNotEmpty();
        return documents;
    }

    private static Yaml parser() {
        return new Yaml(new SafeConstructor(new LoaderOptions()));
    }

    private static String string(Object from, String... path) {
        Object found = from;
        for (String name : path) {
            found = map(found).get(name);
        }
        assertThat(found).as(String.join(".", path)).isInstanceOf(String.class);
        return (String) found;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object from, String... path) {
        Object found = from;
        for (String name : path) {
            found = ((Map<String, Object>) found).get(name);
        }
        assertThat(found).as(String.join(".", path)).isInstanceOf(Map.class);
        return (Map<String, Object>) found;
    }

    @SuppressWarnings("unchecked")
    private static List<Object> list(Object from, String name) {
        Object found = map(from).get(name);
        return found == null ? List.of() : (List<Object>) found;
    }
}
