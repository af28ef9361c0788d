/**
 * The face of Spillgate and the words it speaks: {@link io.github.spillgate.Limit}, {@link io.github.spillgate.Charge},
 * {@link io.github.spillgate.Decision}, {@link io.github.spillgate.LimitStore} and
 * {@link io.github.spillgate.RateLimiter}.
 *
 * <p>This package knows no store and no framework; every other room of the house looks at it, and it looks at none.
 */
@NullMarked
package io.github.spillgate;

import org.jspecify.annotations.NullMarked;
