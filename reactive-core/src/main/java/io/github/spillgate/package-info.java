/**
 * The API of Spillgate: {@link io.github.spillgate.Limit}, {@link io.github.spillgate.Charge},
 * {@link io.github.spillgate.Decision}, {@link io.github.spillgate.LimitStore} and
 * {@link io.github.spillgate.RateLimiter}.
 *
 * <p>All other packages may depend on this one. It depends on no store, no framework and no other package.
 */
@NullMarked
package io.github.spillgate;

import org.jspecify.annotations.NullMarked;
