package io.github.spillgate.vertx;

import static io.github.spillgate.http.settings.WrongSettingException.checked;

import io.github.spillgate.Limit;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.internal.syntax.Spelling;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The settings of an object in JSON that were set. Their {@link Schema} declares each once. A setter converts its value
 * to JSON and reads it back, so setters and JSON have the same checks.
 */
final class Settings {

    private static final Pattern NUMBER = Pattern.compile("[+-]?[0-9.]+");

    private final Schema schema;
    private final Map<Setting<?>, Object> values = new LinkedHashMap<>();

    /**
     * Reads settings.
     *
     * @param where the location of the object with a dot at its end; empty for the outermost one
     */
    Settings(Schema schema, String where, JsonObject json) {
        this.schema = schema;
        read(where, "", json);
    }

    Settings(Settings other) {
        this.schema = other.schema;
        values.putAll(other.values);
    }

    private void read(String where, String section, JsonObject json) {
        Map<String, String> spellings = new HashMap<>();
        for (Map.Entry<String, Object> entry : json) {
            String spelling = entry.getKey();
            String name = schema.name(section, spelling);
            if (name == null) {
                throw schema.unknown(where, section, spelling);
            }
            String twice = spellings.put(name, spelling);
            if (twice != null) {
                throw new WrongSettingException(
                        where + section + spelling,
                        "…",
                        "it is also there as " + twice + ": expected one of them",
                        null);
            }
            String full = section + name;
            Object value = entry.getValue();
            Setting<?> setting = schema.settings.get(full);
            if (value != null && setting != null) {
                values.put(setting, setting.reader.read(where + full, value));
            } else if (value != null) {
                String example = Objects.requireNonNull(schema.sections.get(full));
                read(where, full + ".", object(where + full, value, example));
            }
        }
    }

    /** Sets a value, which may be an array; null restores the default. */
    void put(Setting<?> setting, @Nullable Object value) {
        if (value == null) {
            values.remove(setting);
        } else {
            values.put(setting, setting.reader.read(setting.name, Objects.requireNonNull(written(value))));
        }
    }

    /** Returns the value or the default of a setting that has one. */
    <T> T get(Setting<T> setting) {
        return Objects.requireNonNull(find(setting));
    }

    @SuppressWarnings("unchecked") // the reader of the setting has returned it
    <T> @Nullable T find(Setting<T> setting) {
        Object value = values.get(setting);
        return value == null ? setting.defaultValue : (T) value;
    }

    boolean isSet(Setting<?> setting) {
        return values.containsKey(setting);
    }

    /** Fails if a setting was set to another value than it has there, except one that may change. */
    void rejectChanges(Settings running, Setting<?> mayChange) {
        values.forEach((setting, value) -> {
            Object current = running.find(setting);
            if (!setting.equals(mayChange) && !value.equals(current)) {
                boolean isSecret = schema.secrets.contains(setting);
                String found = isSecret ? "…" : Json.encode(written(value));
                String expected = isSecret ? "the same one" : Json.encode(written(current));
                throw new WrongSettingException(
                        setting.name,
                        found,
                        "found " + found + ": only a restart can change it: expected " + expected + ", as at the start",
                        null);
            }
        });
    }

    JsonObject toJson() {
        JsonObject json = new JsonObject();
        for (Map.Entry<Setting<?>, Object> entry : values.entrySet()) {
            String name = entry.getKey().name;
            int dot = name.indexOf('.');
            JsonObject object = json;
            if (dot >= 0) {
                String section = name.substring(0, dot);
                object = json.getJsonObject(section, new JsonObject());
                json.put(section, object);
            }
            object.put(name.substring(dot + 1), written(entry.getValue()));
        }
        return json;
    }

    private static @Nullable Object written(@Nullable Object value) {
        if (value instanceof Object[] array) {
            return written(Arrays.asList(array));
        }
        if (value instanceof List<?> list) {
            JsonArray array = new JsonArray();
            list.forEach(element -> array.add(written(element)));
            return array;
        }
        if (value instanceof Map<?, ?> map) {
            JsonObject object = new JsonObject();
            map.forEach((key, element) -> object.put(String.valueOf(key), written(element)));
            return object;
        }
        if (value instanceof RuleOptions rule) {
            return rule.toJson();
        }
        if (value instanceof Settings settings) {
            return settings.toJson();
        }
        if (value instanceof Enum<?> constant) {
            return text(constant);
        }
        if (value instanceof Duration duration) {
            return duration.toString().substring("PT".length()).toLowerCase(Locale.ROOT);
        }
        return value instanceof Limit ? value.toString() : value;
    }

    private static String text(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Settings settings && settings.values.equals(values);
    }

    @Override
    public int hashCode() {
        return values.hashCode();
    }

    /** Reads a value in JSON that is not null; errors have the location of the setting. */
    interface Reader<T> {
        T read(String at, Object value);
    }

    /**
     * A setting.
     *
     * @param name the name, after that of its section, as in {@code redis.uri}
     */
    record Setting<T>(String name, @Nullable T defaultValue, Reader<T> reader) {}

    /** All settings that an object may have. A name may be written {@code limits-from} or {@code limitsFrom}. */
    static final class Schema {

        private final Map<String, String> sections;
        private final Map<String, Setting<?>> settings = new LinkedHashMap<>();
        private final Set<Setting<?>> secrets = new HashSet<>();

        /**
         * Returns a schema without settings.
         *
         * @param sections examples of the objects in which settings are, by the names of these objects
         */
        Schema(Map<String, String> sections) {
            this.sections = sections;
        }

        private @Nullable String name(String section, String spelling) {
            return names(section).stream()
                    .filter(name -> Spelling.plain(name).equals(Spelling.plain(spelling)))
                    .findFirst()
                    .orElse(null);
        }

        /** Returns the names in a section, or of the outermost object, which include those of the sections. */
        private Set<String> names(String section) {
            Set<String> names = new TreeSet<>();
            for (String name : settings.keySet()) {
                if (name.startsWith(section)) {
                    names.add(name.substring(section.length()).replaceFirst("\\..*", ""));
                }
            }
            return names;
        }

        /** A name may be that of a setter, as in {@code redisUri}, or as in a message, {@code redis.uri}. */
        private WrongSettingException unknown(String where, String section, String spelling) {
            String plain = Spelling.plain(spelling.replace(".", ""));
            for (String name : settings.keySet()) {
                boolean isMeant = plain.equals(Spelling.plain(name.replace(".", "")))
                        || plain.equals(Spelling.plain(name.substring(name.indexOf('.') + 1)));
                if (section.isEmpty() && isMeant) {
                    String nested = "{\"" + name.replace(".", "\": {\"") + "\": …" + (name.contains(".") ? "}}" : "}");
                    return new WrongSettingException(
                            where + spelling, "…", "there is no such setting: expected " + nested, null);
                }
            }
            return WrongSettingException.unknown(where + section + spelling, spelling, names(section));
        }

        private <T> Setting<T> add(String name, @Nullable T defaultValue, Reader<T> reader) {
            Setting<T> setting = new Setting<>(name, defaultValue, reader);
            settings.put(name, setting);
            return setting;
        }

        Setting<String> text(String name, String defaultValue) {
            return add(name, defaultValue, textLike(defaultValue));
        }

        Setting<String> optionalText(String name, String example) {
            return add(name, null, textLike(example));
        }

        /** A text that no message may have. */
        Setting<String> secret(String name, String example) {
            Setting<String> setting = optionalText(name, example);
            secrets.add(setting);
            return setting;
        }

        private static Reader<String> textLike(String example) {
            return (at, value) -> {
                if (value instanceof String text) {
                    return text;
                }
                throw new WrongSettingException(at, value, "expected a text, for example \"" + example + "\"", null);
            };
        }

        Setting<Boolean> flag(String name, boolean defaultValue) {
            return add(name, defaultValue, (at, value) -> {
                if (value instanceof Boolean flag) {
                    return flag;
                }
                throw wrong(at, value, "true or false");
            });
        }

        Setting<Long> number(String name, long defaultValue) {
            String expected = "a whole number, for example " + defaultValue;
            return add(name, defaultValue, (at, value) -> whole(at, value, expected, BigDecimal::longValueExact));
        }

        Setting<Integer> integer(String name, int defaultValue) {
            String expected = "a whole number up to " + Integer.MAX_VALUE + ", for example " + defaultValue;
            return add(name, defaultValue, (at, value) -> whole(at, value, expected, BigDecimal::intValueExact));
        }

        /** Fails for a fraction, and for a number that the type does not have. */
        private static <T> T whole(String at, Object value, String expected, Function<BigDecimal, T> read) {
            try {
                if (value instanceof Number) {
                    return read.apply(new BigDecimal(value.toString()));
                }
            } catch (ArithmeticException | NumberFormatException e) {
                // Reported below.
            }
            throw wrong(at, value, expected);
        }

        Setting<Double> decimal(String name, @Nullable Double defaultValue, double example) {
            return add(name, defaultValue, (at, value) -> {
                if (value instanceof Number number) {
                    return number.doubleValue();
                }
                throw wrong(at, value, "a number, for example " + example);
            });
        }

        /** A time with its unit, such as {@code 50ms}: a number could be milliseconds or seconds. */
        Setting<Duration> duration(String name, Duration defaultValue) {
            return add(name, defaultValue, (at, value) -> {
                String text = String.valueOf(value);
                Duration found = duration(text);
                if (found != null) {
                    return found;
                }
                String expected = "a time with its unit, for example \"" + defaultValue.toMillis() + "ms\"";
                if (value instanceof Number || NUMBER.matcher(text).matches()) {
                    throw new WrongSettingException(
                            at, value, "found " + text + ", which has no unit: expected " + expected, null);
                }
                throw wrong(at, value, expected);
            });
        }

        private static @Nullable Duration duration(String text) {
            try {
                if (text.equals("0")) {
                    return Duration.ZERO;
                }
                if (text.endsWith("ms")) {
                    return Duration.ofMillis(Long.parseLong(text.substring(0, text.length() - 2)));
                }
                boolean isDays = text.endsWith("d") || text.endsWith("D");
                return Duration.parse(text.startsWith("P") ? text : (isDays ? "P" : "PT") + text);
            } catch (RuntimeException e) {
                return null;
            }
        }

        <E extends Enum<E>> Setting<E> choice(String name, Class<E> type, @Nullable E defaultValue) {
            return add(name, defaultValue, (at, value) -> {
                List<String> texts = new ArrayList<>();
                for (E constant : type.getEnumConstants()) {
                    String text = Settings.text(constant);
                    if (Spelling.plain(text).equals(Spelling.plain(value.toString()))) {
                        return constant;
                    }
                    texts.add(text);
                }
                String shown = found(value).isEmpty() ? "…" : value.toString();
                throw WrongSettingException.unknownValue(at, shown, texts);
            });
        }

        Setting<List<String>> texts(String name, String example) {
            return list(name, example, text -> text);
        }

        /** An array of texts, or a text with commas, each element of which is converted. */
        <T> Setting<List<T>> list(String name, String example, Function<String, T> read) {
            return add(name, List.of(), (at, value) -> {
                List<T> all = new ArrayList<>();
                for (String text : split(at, value, example)) {
                    all.add(checked(at, text, read));
                }
                return List.copyOf(all);
            });
        }

        private static List<String> split(String at, Object value, String example) {
            if (value instanceof String text) {
                return Arrays.stream(text.split(",", -1))
                        .map(String::strip)
                        .filter(part -> !part.isEmpty())
                        .toList();
            }
            if (value instanceof JsonArray array && array.stream().allMatch(String.class::isInstance)) {
                return array.stream().map(String.class::cast).toList();
            }
            throw new WrongSettingException(at, value, "expected texts, for example [\"" + example + "\"]", null);
        }

        /** An array of objects, which are read with their location. */
        <T> Setting<List<T>> objects(String name, String example, BiFunction<String, JsonObject, T> read) {
            return add(name, List.of(), (at, value) -> {
                if (!(value instanceof JsonArray array)) {
                    throw new WrongSettingException(
                            at, value, "expected an array of objects, for example [" + example + "]", null);
                }
                List<T> all = new ArrayList<>();
                for (int i = 0; i < array.size(); i++) {
                    String element = at + "[" + i + "]";
                    JsonObject object = object(element, array.getValue(i), example);
                    try {
                        all.add(read.apply(element + ".", object));
                    } catch (WrongSettingException e) {
                        throw object.getValue("name") instanceof String rule ? e.inRule(rule) : e;
                    }
                }
                return List.copyOf(all);
            });
        }

        /** An object of objects, with keys that the application chooses, which have the settings of another schema. */
        Setting<Map<String, Settings>> named(String name, String key, String example, Schema schema) {
            return add(name, Map.of(), (at, value) -> {
                Map<String, Settings> all = new LinkedHashMap<>();
                for (Map.Entry<String, Object> entry : object(at, value, "{\"" + key + "\": " + example + "}")) {
                    String element = at + "." + entry.getKey();
                    JsonObject object = object(element, entry.getValue(), example);
                    all.put(entry.getKey(), new Settings(schema, element + ".", object));
                }
                return Collections.unmodifiableMap(all);
            });
        }
    }

    private static JsonObject object(String at, @Nullable Object value, String example) {
        if (value instanceof JsonObject object) {
            return object;
        }
        throw new WrongSettingException(at, value, "expected an object, for example " + example, null);
    }

    private static WrongSettingException wrong(String at, Object value, String expected) {
        return new WrongSettingException(at, value, found(value) + "expected " + expected, null);
    }

    /**
     * Describes a value of the wrong type, unless it may contain a secret. A secret is a text where a text is expected,
     * or is inside an object.
     */
    private static String found(Object value) {
        return value instanceof String || value instanceof Number || value instanceof Boolean
                ? "found " + value + ", "
                : "";
    }
}
