/** Compares our limiter with others, in one run on one Redis. */
@NullMarked
package io.github.spillgate.examples.benchmark;

import org.jspecify.annotations.NullMarked;
