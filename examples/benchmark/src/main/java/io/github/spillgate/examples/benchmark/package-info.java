/** Compares our limiter with others, in one run on the same servers. */
@NullMarked
package io.github.spillgate.examples.benchmark;

import org.jspecify.annotations.NullMarked;
