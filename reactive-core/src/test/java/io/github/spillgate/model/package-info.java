/** What the algorithms mean, written as plainly as possible and without any thought of cost. */
@NullMarked
package io.github.spillgate.model;

import org.jspecify.annotations.NullMarked;
