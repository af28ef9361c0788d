/** What each algorithm admits, and how far a counter is from a log, on virtual time and without Redis. */
@NullMarked
package io.github.spillgate.examples.benchmark.simulate;

import org.jspecify.annotations.NullMarked;
