package io.github.spillgate.webflux.autoconfigure;

import org.jspecify.annotations.Nullable;

/** A setting that cannot be followed; the application does not start with it. */
final class WrongSettingException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final String property;
    private final String value;

    WrongSettingException(String property, @Nullable Object value, String why, @Nullable Throwable cause) {
        super(why, cause);
        this.property = property;
        this.value = String.valueOf(value);
    }

    String property() {
        return property;
    }

    String value() {
        return value;
    }
}
