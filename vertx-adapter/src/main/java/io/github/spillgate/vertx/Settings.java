package io.github.spillgate.vertx;

import static io.github.spillgate.http.settings.WrongSettingException.checked;

import io.github.spillgate.Limit;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.internal.syntax.Spelling;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Settings in JSON. A name may be written {@code limits-from} or {@code limitsFrom}. A setting that was never read is
 * reported as unknown.
 */
final class Settings {

    private static final Pattern NUMBER = Pattern.compile("[+-]?[0-9.]+");
    private static final String RULE = "{\"name\": \"address\", \"limits\": \"120/1m\"}";

    private final String where;
    private final JsonObject json;

    /** Adds this object to the one above it, when it gets its first setting. */
    private final Runnable attach;

    private final Set<String> known = new TreeSet<>();

    Settings(String where, JsonObject json) {
        this(where, json, () -> {});
    }

    private Settings(String where, JsonObject json, Runnable attach) {
        this.where = where;
        this.json = json;
        this.attach = attach;
        Map<String, String> names = new HashMap<>();
        for (String name : json.fieldNames()) {
            String twice = names.put(Spelling.plain(name), name);
            if (twice != null) {
                throw wrong(name, json.getValue(name), "it is also there as " + twice + ": expected one of them");
            }
        }
    }

    /** Sets a value; null removes it. */
    void put(String name, @Nullable Object value) {
        json.fieldNames().removeIf(other -> Spelling.plain(other).equals(Spelling.plain(name)));
        if (value != null) {
            json.put(name, written(value));
            attach.run();
        }
    }

    private static Object written(Object value) {
        if (value instanceof List<?> list) {
            return new JsonArray(list.stream().map(Settings::written).toList());
        }
        if (value instanceof Enum<?> constant) {
            return text(constant);
        }
        return value instanceof Duration || value instanceof Limit ? value.toString() : value;
    }

    private static String text(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    JsonObject toJson() {
        return json.copy();
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Settings settings && settings.json.equals(json);
    }

    @Override
    public int hashCode() {
        return json.hashCode();
    }

    private @Nullable Object take(String name) {
        known.add(name);
        return json.fieldNames().stream()
                .filter(other -> Spelling.plain(other).equals(Spelling.plain(name)))
                .findFirst()
                .map(json::getValue)
                .orElse(null);
    }

    private <T> T read(String name, T defaultValue, String expected, Function<Object, @Nullable T> read) {
        Object value = take(name);
        if (value == null) {
            return defaultValue;
        }
        T found = checkedHere(name, value, read);
        if (found == null) {
            throw wrong(name, value, found(value) + "expected " + expected);
        }
        return found;
    }

    @Nullable
    String text(String name) {
        Object value = take(name);
        if (value != null && !(value instanceof String)) {
            throw wrong(name, value, "expected a text");
        }
        return (String) value;
    }

    String text(String name, String defaultValue) {
        String found = text(name);
        return found == null ? defaultValue : found;
    }

    long number(String name, long defaultValue) {
        return read(
                name,
                defaultValue,
                "a whole number, for example " + defaultValue,
                value -> value instanceof Number number ? whole(number) : null);
    }

    /** Returns null for a fraction, and for a number that does not fit into a long. */
    private static @Nullable Long whole(Number number) {
        try {
            return new BigDecimal(number.toString()).longValueExact();
        } catch (ArithmeticException | NumberFormatException e) {
            return null;
        }
    }

    int integer(String name, int defaultValue) {
        long found = number(name, defaultValue);
        if (found != (int) found) {
            throw wrong(name, found, found + " is out of range: expected, for example, " + defaultValue);
        }
        return (int) found;
    }

    /** Returns null if it is not set. */
    @Nullable
    Double fraction(String name) {
        return numberOrNull(name, "0.25");
    }

    double decimal(String name, double defaultValue) {
        Double found = numberOrNull(name, "1.5");
        return found == null ? defaultValue : found;
    }

    private @Nullable Double numberOrNull(String name, String example) {
        Object value = take(name);
        if (value != null && !(value instanceof Number)) {
            throw wrong(name, value, found(value) + "expected a number, for example " + example);
        }
        return value == null ? null : ((Number) value).doubleValue();
    }

    boolean flag(String name, boolean defaultValue) {
        return read(name, defaultValue, "true or false", value -> value instanceof Boolean flag ? flag : null);
    }

    /** Reads a time with its unit, such as {@code 50ms}: a number could be milliseconds or seconds. */
    Duration duration(String name, Duration defaultValue) {
        String expected = "a time with its unit, for example \"" + defaultValue.toMillis() + "ms\"";
        Object value = take(name);
        if (value == null) {
            return defaultValue;
        }
        String text = String.valueOf(value);
        Duration found = duration(text);
        if (found == null) {
            boolean isNumber = value instanceof Number || NUMBER.matcher(text).matches();
            throw wrong(
                    name,
                    value,
                    isNumber
                            ? "found " + text + ", which has no unit: expected " + expected
                            : found(value) + "expected " + expected);
        }
        return found;
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

    <E extends Enum<E>> E choice(String name, Class<E> type, E defaultValue) {
        E found = choice(name, type);
        return found == null ? defaultValue : found;
    }

    <E extends Enum<E>> @Nullable E choice(String name, Class<E> type) {
        Object value = take(name);
        if (value == null) {
            return null;
        }
        List<String> texts = new ArrayList<>();
        for (E constant : type.getEnumConstants()) {
            String text = text(constant);
            if (Spelling.plain(text).equals(Spelling.plain(value.toString()))) {
                return constant;
            }
            texts.add(text);
        }
        String shown = found(value).isEmpty() ? "…" : value.toString();
        throw inRule(WrongSettingException.unknownValue(at(name), shown, texts));
    }

    /** Reads an array of texts, or a text with commas. */
    List<String> texts(String name) {
        return list(name, text -> text);
    }

    /** Reads an array of texts, or a text with commas, and converts each element. */
    <T> List<T> list(String name, Function<String, T> read) {
        Object value = take(name);
        if (value == null) {
            return List.of();
        }
        List<T> all = new ArrayList<>();
        for (String text : split(name, value)) {
            all.add(checkedHere(name, text, read));
        }
        return List.copyOf(all);
    }

    private List<String> split(String name, Object value) {
        if (value instanceof String text) {
            return Arrays.stream(text.split(",", -1))
                    .map(String::strip)
                    .filter(part -> !part.isEmpty())
                    .toList();
        }
        if (value instanceof JsonArray array && array.stream().allMatch(String.class::isInstance)) {
            return array.stream().map(String.class::cast).toList();
        }
        throw wrong(name, value, "expected texts, for example [\"a\", \"b\"]");
    }

    /** Returns the settings in an object; without any if it is absent. */
    Settings below(String name) {
        Object value = take(name);
        JsonObject below = value == null ? new JsonObject() : object(at(name), value);
        return new Settings(at(name), below, () -> put(name, below));
    }

    /** Returns copies of the objects in an array. */
    List<Settings> each(String name) {
        Object value = take(name);
        if (value == null) {
            return List.of();
        }
        if (!(value instanceof JsonArray array)) {
            throw new WrongSettingException(
                    at(name), value, "expected an array of objects, for example [" + RULE + "]", null);
        }
        List<Settings> all = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            String element = at(name) + "[" + i + "]";
            all.add(new Settings(element, object(element, array.getValue(i)).copy()));
        }
        return all;
    }

    private static JsonObject object(String setting, @Nullable Object value) {
        if (value instanceof JsonObject object) {
            return object;
        }
        String example = switch (setting) {
            case "redis" -> "{\"uri\": \"redis://localhost:6379\"}";
            case "local" -> "{\"counts\": 100000}";
            case "client-address" -> "{\"ipv6-prefix\": 56}";
            case "headers" -> "{\"retry-after\": false}";
            default -> RULE;
        };
        throw new WrongSettingException(setting, value, "expected an object, for example " + example, null);
    }

    /** Fails if a setting has not been read. Call it after all others. */
    void rejectUnknown() {
        Set<String> names = new HashSet<>();
        known.forEach(name -> names.add(Spelling.plain(name)));
        for (String name : json.fieldNames()) {
            if (!names.contains(Spelling.plain(name))) {
                throw inRule(WrongSettingException.unknown(at(name), name, known));
            }
        }
    }

    private String at(String name) {
        return where.isEmpty() ? name : where + "." + name;
    }

    private WrongSettingException wrong(String name, @Nullable Object value, String why) {
        return inRule(new WrongSettingException(at(name), value, why, null));
    }

    private <S, T> T checkedHere(String name, S value, Function<? super S, ? extends T> read) {
        try {
            return checked(at(name), value, read);
        } catch (WrongSettingException e) {
            throw inRule(e);
        }
    }

    /** Adds the name of the rule: only rules are elements of a list and have a name. */
    private WrongSettingException inRule(WrongSettingException wrong) {
        return where.endsWith("]") && json.getValue("name") instanceof String name ? wrong.inRule(name) : wrong;
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
