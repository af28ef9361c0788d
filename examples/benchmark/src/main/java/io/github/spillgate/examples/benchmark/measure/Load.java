package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Contender;
import java.util.List;

/**
 * What is asked: of whom (one limiter, or several instances that share their limits), for which keys, how many
 * decisions at a time, and what is done after each.
 *
 * @param servers where they keep their counts
 * @param inTurn whether the keys are asked for in turn; else each time any of them, at random
 */
public record Load(
        List<Contender> instances,
        List<RedisServer> servers,
        List<String> keys,
        int inFlight,
        Runnable after,
        boolean inTurn) {

    public Load {
        instances = List.copyOf(instances);
        servers = List.copyOf(servers);
    }

    public Load everyKeyInTurn() {
        return new Load(instances, servers, keys, inFlight, after, true);
    }
}
