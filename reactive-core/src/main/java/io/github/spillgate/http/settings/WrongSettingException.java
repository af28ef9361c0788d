package io.github.spillgate.http.settings;

import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.Spelling;
import java.util.Collection;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * An invalid setting. The message says what is wrong and what was expected; {@link #setting()} returns its location.
 */
public final class WrongSettingException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    /** The location of the setting. */
    private final String setting;

    /** The value as text. */
    private final String value;

    /** The reason. */
    private final String why;

    /**
     * Creates an error for a setting.
     *
     * @param setting the location, such as {@code spillgate.rules[0].limits}
     * @param value the value
     * @param why what is wrong with it, what was expected, and an example
     * @param cause the underlying error, if any
     */
    public WrongSettingException(String setting, @Nullable Object value, String why, @Nullable Throwable cause) {
        super(setting + ": " + why, cause);
        this.setting = setting;
        this.value = String.valueOf(value);
        this.why = why;
    }

    /**
     * Returns the error for a setting that does not exist. It does not quote the value, because that may belong to a
     * misspelt secret.
     *
     * @param setting the location, such as {@code spillgate.rules[0].path}
     * @param name the name of the setting, as written, such as {@code path}
     * @param names the valid names at that location
     * @return an error that lists the valid names, and suggests the nearest
     */
    public static WrongSettingException unknown(String setting, String name, Collection<String> names) {
        return new WrongSettingException(
                setting, "…", "there is no such setting: " + Spelling.expected(name, names), null);
    }

    /**
     * Returns the error for a value that a setting cannot have.
     *
     * @param setting the location, such as {@code spillgate.rules[0].when-missing}
     * @param value the value
     * @param values the valid values
     * @return an error that lists the valid values, and suggests the nearest
     */
    public static WrongSettingException unknownValue(String setting, String value, Collection<String> values) {
        return new WrongSettingException(
                setting, value, "found " + Text.quote(value) + ": " + Spelling.expected(value, values), null);
    }

    /**
     * Returns the same error with the name of its rule in front of the reason.
     *
     * @param rule the name of the rule; null if it has none
     * @return an error for the same setting; this one if the rule has no name, or if the reason already starts with it
     */
    public WrongSettingException inRule(@Nullable String rule) {
        if (rule == null || why.startsWith("rule ")) {
            return this;
        }
        return new WrongSettingException(setting, value, "rule " + Text.quote(rule) + ": " + why, getCause());
    }

    /**
     * Reads a setting, and adds its location to an error.
     *
     * @param setting the location
     * @param value the value
     * @param read the function that reads it
     * @param <S> the type of the value
     * @param <T> the type of the result
     * @return the result
     * @throws WrongSettingException if the function rejects the value
     */
    public static <S, T> T checked(String setting, S value, Function<? super S, ? extends T> read) {
        try {
            return read.apply(value);
        } catch (WrongSettingException e) {
            throw e;
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new WrongSettingException(setting, value, String.valueOf(e.getMessage()), e);
        }
    }

    /**
     * Returns the location of the setting.
     *
     * @return a location such as {@code spillgate.rules[0].limits}
     */
    public String setting() {
        return setting;
    }

    /**
     * Returns the value.
     *
     * @return the value as text
     */
    public String value() {
        return value;
    }

    /**
     * Returns the reason.
     *
     * @return what is wrong with the value, what was expected, and an example
     */
    public String why() {
        return why;
    }
}
