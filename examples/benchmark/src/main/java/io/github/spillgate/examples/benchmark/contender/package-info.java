/** Who is measured: each is set up as its own documentation says, behind one interface. */
@NullMarked
package io.github.spillgate.examples.benchmark.contender;

import org.jspecify.annotations.NullMarked;
