/**
 * What HTTP needs of a rate limiter, without a framework: who the client is, which header fields tell of a decision, and what
 * a denied request gets to read. Adapters translate between this and their framework.
 */
@NullMarked
package io.github.spillgate.http;

import org.jspecify.annotations.NullMarked;
