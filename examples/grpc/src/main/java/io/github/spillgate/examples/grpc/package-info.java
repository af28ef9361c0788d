/** The gRPC interceptor that docs/grpc.md shows. */
@org.jspecify.annotations.NullMarked
package io.github.spillgate.examples.grpc;
