package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;

/**
 * The resources that a Redis server has used since its start.
 *
 * @param calls the commands and their times
 * @param cpuMicros the processor time of its process, including input and output
 * @param bytesIn the bytes read from all clients
 * @param bytesOut the bytes written to all clients
 */
record ServerUsage(CommandCalls calls, double cpuMicros, double bytesIn, double bytesOut) {

    ServerUsage since(ServerUsage before) {
        return new ServerUsage(
                calls.since(before.calls),
                cpuMicros - before.cpuMicros,
                bytesIn - before.bytesIn,
                bytesOut - before.bytesOut);
    }
}
