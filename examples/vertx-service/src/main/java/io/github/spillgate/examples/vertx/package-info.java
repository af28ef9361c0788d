/** A URL shortener that limits the creation of links. The settings of its limiter are in config.json. */
@NullMarked
package io.github.spillgate.examples.vertx;

import org.jspecify.annotations.NullMarked;
