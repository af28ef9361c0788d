/** Measures decisions: their number, latency, and cost in Redis and on the heap. */
@NullMarked
package io.github.spillgate.examples.benchmark.measure;

import org.jspecify.annotations.NullMarked;
