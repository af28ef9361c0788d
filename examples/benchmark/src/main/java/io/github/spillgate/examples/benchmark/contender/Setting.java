package io.github.spillgate.examples.benchmark.contender;

import java.util.List;

/** What a contender is set up for: where Redis is, and which rates every key falls under. */
public record Setting(String host, int port, List<Rate> rates) {

    public Setting {
        rates = List.copyOf(rates);
    }

    String uri() {
        return "redis://" + host + ":" + port;
    }

    /** For those who know one rate only. */
    Rate onlyRate() {
        if (rates.size() != 1) {
            throw new IllegalArgumentException("rates " + rates + " are " + rates.size() + ": expected exactly one");
        }
        return rates.get(0);
    }
}
