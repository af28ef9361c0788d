package io.github.spillgate.examples.benchmark.contender;

import java.util.List;

/** The setting of a contender: the address of Redis, and the rates of every key. */
public record Setting(String host, int port, List<Rate> rates) {

    public Setting {
        rates = List.copyOf(rates);
    }

    String uri() {
        return "redis://" + host + ":" + port;
    }

    /** Returns the only rate, for contenders that support just one. */
    Rate onlyRate() {
        if (rates.size() != 1) {
            throw new IllegalArgumentException("rates " + rates + " are " + rates.size() + ": expected exactly one");
        }
        return rates.get(0);
    }
}
