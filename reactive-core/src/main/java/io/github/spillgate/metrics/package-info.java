/** Meters and observations for Micrometer, which is optional: no other package needs it. */
@NullMarked
package io.github.spillgate.metrics;

import org.jspecify.annotations.NullMarked;
