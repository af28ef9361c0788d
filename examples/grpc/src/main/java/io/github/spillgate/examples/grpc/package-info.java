/** What docs/grpc.md shows, as a user of the limiter writes it. */
@org.jspecify.annotations.NullMarked
package io.github.spillgate.examples.grpc;
