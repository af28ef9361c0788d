/** Decisions made in Redis, by one script and on Redis's clock, over a connection of our own. */
@NullMarked
package io.github.spillgate.redis;

import org.jspecify.annotations.NullMarked;
