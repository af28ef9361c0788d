/** A URL shortener where creating is limited and following is not; what the limiter is told stands in config.json. */
@NullMarked
package io.github.spillgate.examples.vertx;

import org.jspecify.annotations.NullMarked;
