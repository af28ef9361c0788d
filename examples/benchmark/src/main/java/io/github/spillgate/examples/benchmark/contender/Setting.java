package io.github.spillgate.examples.benchmark.contender;

import java.util.List;

/** The setting of a contender: the port of its server on loopback, and the rates of every key. */
public record Setting(int port, List<Rate> rates) {

    static final String HOST = "127.0.0.1";

    public Setting {
        rates = List.copyOf(rates);
    }

    String uri() {
        return "redis://" + HOST + ":" + port;
    }

    String r2dbcUri() {
        return "r2dbc:postgresql://spillgate@" + HOST + ":" + port + "/postgres";
    }

    String jdbcUri() {
        return "jdbc:postgresql://" + HOST + ":" + port + "/postgres?user=spillgate";
    }

    /** Returns the only rate, for contenders that support just one. */
    Rate onlyRate() {
        if (rates.size() != 1) {
            throw new IllegalArgumentException("rates " + rates + " are " + rates.size() + ": expected exactly one");
        }
        return rates.get(0);
    }
}
