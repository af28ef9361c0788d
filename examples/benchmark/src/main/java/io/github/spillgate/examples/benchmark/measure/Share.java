package io.github.spillgate.examples.benchmark.measure;

/**
 * What one decision costs a node, on average over all decisions, whichever node made them.
 *
 * @param commands how many commands reached the node
 * @param micros how long it was busy with them, by its own account
 * @param cpuMicros the processor time of its process, reading and writing included
 * @param bytesIn what it has read
 * @param bytesOut what it has written
 */
public record Share(double commands, double micros, double cpuMicros, double bytesIn, double bytesOut) {}
