/** Small models of the five rate limiters that this project started from, compared with ours under the same traffic. */
@NullMarked
package io.github.spillgate.examples.documentation.seeds;

import org.jspecify.annotations.NullMarked;
