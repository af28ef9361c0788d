/** Helpers for any package of this library. Not for use outside of this library: they change without notice. */
@NullMarked
package io.github.spillgate.internal;

import org.jspecify.annotations.NullMarked;
