/**
 * A service that checks VAT numbers, with limits by address, by plan and by endpoint. Its settings are in
 * application.yaml.
 */
@NullMarked
package io.github.spillgate.examples.webflux;

import org.jspecify.annotations.NullMarked;
