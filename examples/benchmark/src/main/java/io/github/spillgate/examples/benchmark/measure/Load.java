package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Contender;
import java.util.List;

/**
 * A load: the limiters (one, or several instances that share their limits), the keys and the decisions in flight.
 *
 * @param servers the servers with their counts
 * @param inTurn whether the keys are used in turn; else at random
 */
public record Load(List<Contender> instances, List<Server> servers, List<String> keys, int inFlight, boolean inTurn) {

    public Load {
        instances = List.copyOf(instances);
        servers = List.copyOf(servers);
    }

    public Load everyKeyInTurn() {
        return new Load(instances, servers, keys, inFlight, true);
    }
}
