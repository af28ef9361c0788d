package io.github.spillgate.http;

import java.util.Collection;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A setting that cannot be followed. Its message says why, and what would be right; {@link #setting()} where it stands. */
public final class WrongSettingException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    /** Where it stands. */
    private final String setting;

    /** What it is. */
    private final String value;

    /** What is wrong with it. */
    private final String why;

    /**
     * A setting that is wrong.
     *
     * @param setting where it stands, such as {@code spillgate.rules[0].limits}
     * @param value its value
     * @param why what is wrong with it, what was expected, and an example
     * @param cause what has found that, if something has
     */
    public WrongSettingException(String setting, @Nullable Object value, String why, @Nullable Throwable cause) {
        super(setting + ": " + why, cause);
        this.setting = setting;
        this.value = String.valueOf(value);
        this.why = why;
    }

    /**
     * Returns the error for a setting that does not exist. It does not quote the value, which may be a misspelt secret's.
     *
     * @param setting where it stands, such as {@code spillgate.rules[0].path}
     * @param name its own name, as it was written, such as {@code path}
     * @param names the names that there are in that place
     * @return an error with the nearest of those names, and all of them
     */
    public static WrongSettingException unknown(String setting, String name, Collection<String> names) {
        return new WrongSettingException(setting, "…", "there is no such setting: " + expected(name, names), null);
    }

    /**
     * Returns the error for a value that is none of those that a setting can have.
     *
     * @param setting where it stands, such as {@code spillgate.rules[0].when-missing}
     * @param value the value
     * @param values the values that it can have
     * @return an error with the nearest of them, and all of them
     */
    public static WrongSettingException unknownValue(String setting, String value, Collection<String> values) {
        return new WrongSettingException(
                setting, value, "found " + Quoted.text(value) + ": " + expected(value, values), null);
    }

    /** Names the right one, if it can be told, and all that there are. */
    static String expected(String wrong, Collection<String> right) {
        String all = "one of " + String.join(", ", right);
        return Spelling.nearest(wrong, right)
                .map(nearest -> "did you mean " + nearest + "? Expected " + all)
                .orElse("expected " + all);
    }

    /**
     * Returns the same error with the name of its rule before the reason.
     *
     * @param rule the name of the rule; null if it has none
     * @return an error of the same setting; this one if the rule has no name, or the reason begins with it
     */
    public WrongSettingException inRule(@Nullable String rule) {
        if (rule == null || why.startsWith("rule ")) {
            return this;
        }
        return new WrongSettingException(setting, value, "rule " + Quoted.text(rule) + ": " + why, getCause());
    }

    /**
     * Reads a setting, and says which one it is if that cannot be done.
     *
     * @param setting where it stands
     * @param value its value
     * @param read reads it
     * @param <S> what it is
     * @param <T> what it is when it has been read
     * @return what has been read
     * @throws WrongSettingException if it refuses the value
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
     * Returns where the setting stands.
     *
     * @return such as {@code spillgate.rules[0].limits}
     */
    public String setting() {
        return setting;
    }

    /**
     * Returns what it is set to.
     *
     * @return the value as text
     */
    public String value() {
        return value;
    }

    /**
     * Returns what is wrong with it.
     *
     * @return why it cannot be followed, what was expected, and an example
     */
    public String why() {
        return why;
    }
}
