/** The gRPC interceptor that docs/websockets-and-grpc.md describes. */
@org.jspecify.annotations.NullMarked
package io.github.spillgate.examples.grpc;
