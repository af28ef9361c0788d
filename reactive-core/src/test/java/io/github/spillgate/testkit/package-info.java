/** What tests of a store share: the contract that every store keeps, a clock that obeys, and a real Redis. */
@NullMarked
package io.github.spillgate.testkit;

import org.jspecify.annotations.NullMarked;
