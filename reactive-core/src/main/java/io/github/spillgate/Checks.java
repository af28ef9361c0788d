package io.github.spillgate;

import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Refuses what is missing, and says what should be there. */
final class Checks {

    private Checks() {}

    static <T> T present(@Nullable T value, String what, String example) {
        if (value == null) {
            throw new NullPointerException(what + " is null: expected one, for example " + example);
        }
        return value;
    }

    /** Returns a copy of the collection, of which no element is missing. */
    static <T> List<T> allPresent(@Nullable Collection<? extends T> values, String what, String example) {
        for (T value : present(values, what, "List.of(" + example + ")")) {
            present(value, "one of the " + what, example);
        }
        return List.copyOf(values);
    }
}
