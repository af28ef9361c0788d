/** The Redis server of the examples. */
@NullMarked
package io.github.spillgate.examples.redis;

import org.jspecify.annotations.NullMarked;
