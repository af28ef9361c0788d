/**
 * A service that checks VAT numbers, limited by address, by plan and by endpoint; what the limiter is told stands in
 * application.yaml.
 */
@NullMarked
package io.github.spillgate.examples.webflux;

import org.jspecify.annotations.NullMarked;
