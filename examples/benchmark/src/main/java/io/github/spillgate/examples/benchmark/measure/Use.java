package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;

/**
 * What a Redis has done since it started.
 *
 * @param calls which commands, and how long it was busy with them
 * @param cpuMicros the time of processors that its process has had; reading and writing is in it
 * @param bytesIn what it has read from all its clients
 * @param bytesOut what it has written to them
 */
record Use(CommandCalls calls, double cpuMicros, double bytesIn, double bytesOut) {

    Use since(Use before) {
        return new Use(
                calls.since(before.calls),
                cpuMicros - before.cpuMicros,
                bytesIn - before.bytesIn,
                bytesOut - before.bytesOut);
    }
}
