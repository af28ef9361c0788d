/**
 * The five rate limiters that the project started from, as small models, and ours beside them under the same traffic.
 */
@NullMarked
package io.github.spillgate.examples.documentation.seeds;

import org.jspecify.annotations.NullMarked;
