/** The Redis that the examples run on. */
@NullMarked
package io.github.spillgate.examples.redis;

import org.jspecify.annotations.NullMarked;
