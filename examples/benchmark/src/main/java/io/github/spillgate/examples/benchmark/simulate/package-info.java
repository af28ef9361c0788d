/** Simulates what each algorithm admits, and the error of a counter, in virtual time and without Redis. */
@NullMarked
package io.github.spillgate.examples.benchmark.simulate;

import org.jspecify.annotations.NullMarked;
