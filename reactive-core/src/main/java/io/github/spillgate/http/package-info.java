/**
 * Rate limiting for HTTP, independent of a framework: rules, the address of the client, rate limit header fields, and
 * the response to denied requests. Adapters connect it to a framework.
 */
@NullMarked
package io.github.spillgate.http;

import org.jspecify.annotations.NullMarked;
