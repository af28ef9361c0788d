package io.github.spillgate.http;

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
