/**
 * The auto-configuration for Spring Boot, which creates a limiter from settings. Each bean gives way to one that the
 * application defines.
 */
@NullMarked
package io.github.spillgate.webflux.autoconfigure;

import org.jspecify.annotations.NullMarked;
