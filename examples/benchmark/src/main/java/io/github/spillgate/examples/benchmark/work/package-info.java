/** What is asked of those who take part, and how they are compared. */
@NullMarked
package io.github.spillgate.examples.benchmark.work;

import org.jspecify.annotations.NullMarked;
