/**
 * Rate limiting for Vert.x: a handler for Vert.x Web, and a limiter with futures for everything else.
 */
@NullMarked
package io.github.spillgate.vertx;

import org.jspecify.annotations.NullMarked;
