package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.testkit.MarkdownTable;
import io.github.spillgate.vertx.Settings.Schema;
import io.github.spillgate.vertx.Settings.Setting;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/**
 * The page of settings has each setting that {@link RateLimitOptions} reads, with its type and its default. The type is
 * what the error for another one expects.
 */
class SettingsPageTest {

    private static final String PREFIX = "spillgate.";

    private static final Map<String, String> TYPES = Map.of(
            "a text",
            "text",
            "texts",
            "texts",
            "true or false",
            "true or false",
            "a whole number",
            "whole number",
            "a number",
            "number",
            "a time with its unit",
            "time",
            "an array of objects",
            "rules");

    @Test
    void thePageHasEachSetting() throws Exception {
        Map<String, String> shown = new HashMap<>();
        MarkdownTable.settings("Limiter").forEach((name, value) -> shown.put(name.substring(PREFIX.length()), value));
        shown.putAll(MarkdownTable.settings("Only in Vert.x"));
        assertThat(shown.remove("limiters.<name>.limits")).isEqualTo("limits | ");
        assertThat(shown).containsExactlyInAnyOrderEntriesOf(expected(RateLimitOptions.class, shown));
        assertThat(shown).hasSizeGreaterThan(30);
    }

    @Test
    void thePageHasEachSettingOfRules() throws Exception {
        Map<String, String> shown = MarkdownTable.settings("Rules");
        assertThat(shown).containsExactlyInAnyOrderEntriesOf(expected(RuleOptions.class, shown));
    }

    /** Returns the types and defaults of the settings; those that the page shows, if they are read as the default. */
    private static Map<String, String> expected(Class<?> options, Map<String, String> shown) throws Exception {
        Map<String, String> expected = new HashMap<>();
        for (Map.Entry<String, Setting<?>> entry : settings(options).entrySet()) {
            String name = entry.getKey();
            if (!name.equals("limiters")) {
                String cell = shown.getOrDefault(name, " | ").replaceFirst(".* \\| ", "");
                expected.put(name, MarkdownTable.typeAndDefault(type(entry.getValue()), value(entry.getValue(), cell)));
            }
        }
        return expected;
    }

    /** Returns the default as the page writes it, if it is that one. */
    private static String value(Setting<?> setting, String cell) {
        Object value = setting.defaultValue();
        if (value == null || value.equals(List.of())) {
            return "";
        }
        Object json = cell.matches("-?[0-9]+")
                ? Integer.valueOf(cell)
                : cell.matches("true|false") ? cell.equals("true") : cell;
        return !cell.isEmpty() && value.equals(read(setting, json)) ? cell : value.toString();
    }

    private static Object read(Setting<?> setting, Object json) {
        try {
            return setting.reader().read("here", json);
        } catch (WrongSettingException e) {
            return e;
        }
    }

    private static String type(Setting<?> setting) throws IOException {
        WrongSettingException wrong = catchThrowableOfType(
                WrongSettingException.class,
                () -> setting.reader().read("here", new JsonArray().add(new JsonObject())));
        if (setting.name().equals("rules")) {
            return "rules";
        }
        String expected = wrong.why().replaceFirst(".*xpected ", "").replaceFirst("( up to .*)?, for example.*", "");
        if (expected.startsWith("one of ")) {
            return expected.substring("one of ".length());
        }
        boolean isLimits = setting.name().equals("limits");
        return isLimits ? "limits" : TYPES.getOrDefault(expected, expected);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Setting<?>> settings(Class<?> options) throws ReflectiveOperationException {
        Field all = options.getDeclaredField("ALL");
        all.setAccessible(true);
        Field settings = Schema.class.getDeclaredField("settings");
        settings.setAccessible(true);
        return (Map<String, Setting<?>>) settings.get(all.get(null));
    }
}
