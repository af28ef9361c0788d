/** Reports of the measurements: numbers, tables and charts. */
@NullMarked
package io.github.spillgate.examples.benchmark.report;

import org.jspecify.annotations.NullMarked;
