package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.MarkdownTable;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.RuleProperties;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Parameter;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.json.JsonParserFactory;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;

/** The page of settings has each setting of the metadata, which IDEs read, with its type and its default. */
class SettingsPageTest {

    private static final String METADATA = "META-INF/spring-configuration-metadata.json";
    private static final String NAMED = "spillgate.limiters";

    private static final Map<Class<?>, String> TYPES = Map.of(
            String.class,
            "text",
            Boolean.class,
            "true or false",
            boolean.class,
            "true or false",
            Integer.class,
            "whole number",
            long.class,
            "whole number",
            Double.class,
            "number",
            Duration.class,
            "time");

    @Test
    void thePageHasEachSettingOfTheMetadata() throws Exception {
        Map<String, String> expected = new TreeMap<>();
        for (Map<String, Object> property : all("properties")) {
            String name = String.valueOf(property.get("name"));
            if (name.startsWith("spillgate.") && !name.equals(NAMED)) {
                expected.put(
                        name,
                        MarkdownTable.typeAndDefault(
                                type(String.valueOf(property.get("type"))),
                                Objects.toString(property.get("defaultValue"), "")));
            }
        }
        expected.put(NAMED + ".<name>.limits", MarkdownTable.typeAndDefault("limits", ""));
        assertThat(expected).hasSizeGreaterThan(35);
        assertThat(MarkdownTable.settings("Limiter", "Only in Spring Boot"))
                .containsExactlyInAnyOrderEntriesOf(expected);
    }

    /** The metadata has no settings of elements of a list. */
    @Test
    void thePageHasEachSettingOfRules() throws IOException {
        Map<String, String> expected = new TreeMap<>();
        // The annotation stays with the parameters.
        for (Parameter setting : RuleProperties.class.getDeclaredConstructors()[0].getParameters()) {
            DefaultValue value = setting.getAnnotation(DefaultValue.class);
            boolean hasDefault = value != null && value.value().length == 1;
            expected.put(
                    kebab(setting.getName()),
                    MarkdownTable.typeAndDefault(
                            type(setting.getParameterizedType()), hasDefault ? value.value()[0] : ""));
        }
        assertThat(MarkdownTable.settings("Rules")).containsExactlyInAnyOrderEntriesOf(expected);
    }

    /** An IDE offers these values, so the application must start with each of them. */
    @Test
    void theApplicationStartsWithEachHint() throws IOException {
        List<Map<String, Object>> hints = all("hints");
        assertThat(hints).hasSizeGreaterThan(5);
        List<String> names = all("properties").stream()
                .map(it -> String.valueOf(it.get("name")))
                .toList();
        for (Map<String, Object> hint : hints) {
            String name = String.valueOf(hint.get("name"));
            assertThat(names).contains(name.replaceFirst("\\.(keys|values)$", ""));
            for (Map<String, Object> value : list(hint, "values")) {
                assertThat(value.get("description")).as("%s", value).asString().isNotBlank();
                assertWorks(name, String.valueOf(value.get("value")));
            }
        }
    }

    private static void assertWorks(String name, String value) {
        switch (name) {
            case "spillgate.redis.uri" ->
                assertThat(
                                value.matches("redis://.*,.*")
                                        ? RedisStore.clusterUris(value)
                                        : List.of(RedisStore.uri(value)))
                        .isNotEmpty();
            case "spillgate.postgres.uri" ->
                assertThat(PostgresStore.builder(value)).isNotNull();
            case NAMED + ".keys" -> assertStarts(NAMED + "." + value + ".limits=1/s");
            case "spillgate.client-address.trusted-proxies" ->
                assertStarts(name + "=" + value, "spillgate.client-address.header=x-forwarded-for");
            default -> assertStarts(name + "=" + value);
        }
    }

    private static void assertStarts(String... settings) {
        new ReactiveWebApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        HttpHandlerAutoConfiguration.class,
                        WebFluxAutoConfiguration.class,
                        SpillgateOutgoingAutoConfiguration.class,
                        SpillgateAutoConfiguration.class))
                .withPropertyValues("spillgate.store=local")
                .withPropertyValues(settings)
                .run(context ->
                        assertThat(context).as(List.of(settings).toString()).hasNotFailed());
    }

    private static String type(String name) throws ClassNotFoundException {
        boolean isList = name.startsWith("java.util.List<");
        Class<?> type = Class.forName(isList ? name.substring("java.util.List<".length(), name.length() - 1) : name);
        return isList ? listOf(type) : type(type);
    }

    private static String type(Type type) {
        if (type instanceof ParameterizedType list) {
            return listOf((Class<?>) list.getActualTypeArguments()[0]);
        }
        Class<?> single = (Class<?>) type;
        return single.isEnum()
                ? Stream.of(single.getEnumConstants())
                        .map(choice ->
                                choice.toString().toLowerCase(Locale.ROOT).replace('_', '-'))
                        .collect(Collectors.joining(", "))
                : Objects.requireNonNull(TYPES.get(single), () -> "no word for " + single);
    }

    private static String listOf(Class<?> element) {
        return Map.of(String.class, "texts", Limit.class, "limits", RuleProperties.class, "rules")
                .get(element);
    }

    private static String kebab(String name) {
        return name.replaceAll("([A-Z])", "-$1").toLowerCase(Locale.ROOT);
    }

    private static List<Map<String, Object>> all(String kind) throws IOException {
        try (InputStream in = SpillgateProperties.class.getResourceAsStream("/" + METADATA)) {
            // Of Spring Boot there are several on the class path, of which ours is the first.
            String text = new String(Objects.requireNonNull(in).readAllBytes(), StandardCharsets.UTF_8);
            assertThat(text).contains("\"spillgate.deadline\"");
            return list(JsonParserFactory.getJsonParser().parseMap(text), kind);
        }
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> list(Map<String, Object> from, String name) {
        return (List<Map<String, Object>>) from.getOrDefault(name, List.of());
    }
}
