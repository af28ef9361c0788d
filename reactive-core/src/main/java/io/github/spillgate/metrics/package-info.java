/** What the limiter tells Micrometer. For those who have it: nothing else here needs it. */
@NullMarked
package io.github.spillgate.metrics;

import org.jspecify.annotations.NullMarked;
