/** The workloads, and how contenders are compared. */
@NullMarked
package io.github.spillgate.examples.benchmark.work;

import org.jspecify.annotations.NullMarked;
