package io.github.spillgate.examples.benchmark.contender;

import java.time.Duration;
import java.util.Locale;

/** A number of permits in a time; each contender maps it to its closest equivalent. */
public record Rate(long permits, Duration window) {

    @Override
    public String toString() {
        return permits + " per " + window.toString().substring(2).toLowerCase(Locale.ROOT);
    }
}
