package io.github.spillgate.examples.benchmark.contender;

import java.time.Duration;
import java.util.Locale;

/** So many permits in so long; each contender makes of it what is nearest to it. */
public record Rate(long permits, Duration window) {

    @Override
    public String toString() {
        return permits + " per " + window.toString().substring(2).toLowerCase(Locale.ROOT);
    }
}
