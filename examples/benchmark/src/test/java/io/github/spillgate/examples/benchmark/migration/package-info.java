/** The code and the statements of docs/migration.md. */
@org.jspecify.annotations.NullMarked
package io.github.spillgate.examples.benchmark.migration;
