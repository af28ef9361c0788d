/**
 * The limiter in Spring WebFlux: a web filter, a filter of functional routes, and an annotation of controllers. They need no Spring
 * Boot.
 */
@NullMarked
package io.github.spillgate.webflux;

import org.jspecify.annotations.NullMarked;
