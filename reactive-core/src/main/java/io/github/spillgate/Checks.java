package io.github.spillgate;

import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Checks for null, with messages that say what was expected. */
final class Checks {

    private Checks() {}

    /** Returns the value; throws a {@link NullPointerException} if it is null. */
    static <T> T present(@Nullable T value, String what, String example) {
        if (value == null) {
            throw new NullPointerException(what + " is null: expected one, for example " + example);
        }
        return value;
    }

    /** Returns a copy of the collection; throws a {@link NullPointerException} if it or an element is null. */
    static <T> List<T> allPresent(@Nullable Collection<? extends T> values, String what, String example) {
        for (T value : present(values, what, "List.of(" + example + ")")) {
            present(value, "one of the " + what, example);
        }
        return List.copyOf(values);
    }
}
