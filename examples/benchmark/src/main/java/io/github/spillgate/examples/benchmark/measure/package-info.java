/** Measures decisions: their number, latency, and cost on the server and on the heap. */
@NullMarked
package io.github.spillgate.examples.benchmark.measure;

import org.jspecify.annotations.NullMarked;
