/**
 * The API of Spillgate: {@link io.github.spillgate.Limit}, {@link io.github.spillgate.Charge},
 * {@link io.github.spillgate.Decision} and {@link io.github.spillgate.RateLimiter}.
 *
 * <p>All other packages may depend on this one and on {@link io.github.spillgate.spi}, which is for authors of stores.
 * Both depend on no store and no framework; only the limiter builds a {@link
 * io.github.spillgate.failover.ResilientStore}.
 */
@NullMarked
package io.github.spillgate;

import org.jspecify.annotations.NullMarked;
