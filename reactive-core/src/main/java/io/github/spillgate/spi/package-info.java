/**
 * For authors of stores: the store itself, the claims that it decides on, the decisions that it returns, and what it
 * charges for another store. Applications do not need this package.
 */
@NullMarked
package io.github.spillgate.spi;

import org.jspecify.annotations.NullMarked;
