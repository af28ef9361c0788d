package io.github.spillgate.vertx;

import io.vertx.ext.web.RoutingContext;

/**
 * A snapshot of a request that starts to wait for a decision. During the wait another handler, such as a timer, may
 * fail, reroute or answer the request. The handler that waits must then not pass the request on.
 */
final class RoutingSnapshot {

    private final RoutingContext ctx;
    private final boolean hadFailed;
    private final boolean wasHeadWritten;
    private final int marker;

    private RoutingSnapshot(RoutingContext ctx) {
        this.ctx = ctx;
        this.hadFailed = ctx.failed();
        this.wasHeadWritten = ctx.response().headWritten();
        // A reroute removes this handler. Nothing else reveals a reroute, because it may lead to the same path.
        this.marker = ctx.addHeadersEndHandler(end -> {});
    }

    static RoutingSnapshot of(RoutingContext ctx) {
        return new RoutingSnapshot(ctx);
    }

    /** Returns whether the request has failed, was rerouted or answered since. Call it once: it removes the marker. */
    boolean hasChanged() {
        boolean wasRerouted = !ctx.removeHeadersEndHandler(marker);
        return wasRerouted || ctx.failed() != hadFailed || ctx.response().headWritten() != wasHeadWritten;
    }
}
