/** What docs/migration.md shows and says. */
@org.jspecify.annotations.NullMarked
package io.github.spillgate.examples.benchmark.migration;
