/**
 * The limiter in Vert.x: a handler for Vert.x Web, and futures for everything else.
 */
@NullMarked
package io.github.spillgate.vertx;

import org.jspecify.annotations.NullMarked;
