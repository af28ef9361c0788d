/** How it is measured: decisions, their times, what they cost Redis and the heap. */
@NullMarked
package io.github.spillgate.examples.benchmark.measure;

import org.jspecify.annotations.NullMarked;
