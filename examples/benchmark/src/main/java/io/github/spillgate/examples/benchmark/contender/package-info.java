/** The measured contenders behind one interface, each configured according to its documentation. */
@NullMarked
package io.github.spillgate.examples.benchmark.contender;

import org.jspecify.annotations.NullMarked;
