package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;

/**
 * The resources that a server has used since its start.
 *
 * @param calls the commands and their times; of PostgreSQL, which does not know that of all statements, their CPU time
 * @param cpuMicros the processor time of its processes, including input and output
 * @param bytesIn the bytes read from all clients; 0 for PostgreSQL, which does not count them
 * @param bytesOut the bytes written to all clients, or by PostgreSQL to its write-ahead log
 */
public record ServerUsage(CommandCalls calls, double cpuMicros, double bytesIn, double bytesOut) {

    ServerUsage since(ServerUsage before) {
        return new ServerUsage(
                calls.since(before.calls),
                cpuMicros - before.cpuMicros,
                bytesIn - before.bytesIn,
                bytesOut - before.bytesOut);
    }
}
