/** HTTP servers with limiters, each in a process of its own, under the load of wrk. */
@NullMarked
package io.github.spillgate.examples.benchmark.wrk;

import org.jspecify.annotations.NullMarked;
