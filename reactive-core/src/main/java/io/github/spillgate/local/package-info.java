/** Decisions made in this process, in bounded memory. */
@NullMarked
package io.github.spillgate.local;

import org.jspecify.annotations.NullMarked;
