/** The store in Redis: its scripts decide on Redis's clock, over connections of its own. */
@NullMarked
package io.github.spillgate.redis;

import org.jspecify.annotations.NullMarked;
