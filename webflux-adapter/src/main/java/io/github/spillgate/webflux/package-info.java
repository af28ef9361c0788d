/**
 * Rate limiting for Spring WebFlux: a web filter, a filter of functional routes, and an annotation for controllers.
 * They do not need Spring Boot.
 */
@NullMarked
package io.github.spillgate.webflux;

import org.jspecify.annotations.NullMarked;
