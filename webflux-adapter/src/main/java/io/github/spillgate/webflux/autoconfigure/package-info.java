/**
 * What makes the limiter work in a Spring Boot application by its settings alone. Each bean gives way to one of the
 * application's own.
 */
@NullMarked
package io.github.spillgate.webflux.autoconfigure;

import org.jspecify.annotations.NullMarked;
