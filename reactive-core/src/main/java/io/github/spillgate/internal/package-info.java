/** Helpers that all packages share. Not for use outside of this library: they change without notice. */
@NullMarked
package io.github.spillgate.internal;

import org.jspecify.annotations.NullMarked;
