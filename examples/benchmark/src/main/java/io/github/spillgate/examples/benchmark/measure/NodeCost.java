package io.github.spillgate.examples.benchmark.measure;

/**
 * The mean cost of a decision on one node, over all decisions on all nodes.
 *
 * @param commands the commands that reached the node
 * @param micros the time that the node reports for them
 * @param cpuMicros the processor time of its processes, including input and output
 * @param bytesIn the bytes read
 * @param bytesOut the bytes written to clients, or by PostgreSQL to its write-ahead log
 */
public record NodeCost(double commands, double micros, double cpuMicros, double bytesIn, double bytesOut) {}
