package io.github.spillgate.vertx;

import io.vertx.ext.web.RoutingContext;

/**
 * Where a request stood when it began to wait. Meanwhile somebody else, such as a timer, may fail it, reroute it, or
 * begin to answer it; then it is no longer for who has waited to send it on.
 */
final class Place {

    private final RoutingContext ctx;
    private final boolean hadFailed;
    private final boolean wasBegun;
    private final int mark;

    private Place(RoutingContext ctx) {
        this.ctx = ctx;
        this.hadFailed = ctx.failed();
        this.wasBegun = ctx.response().headWritten();
        // A reroute throws it away, and is not to be seen otherwise: it may lead to the same path.
        this.mark = ctx.addHeadersEndHandler(end -> {});
    }

    static Place of(RoutingContext ctx) {
        return new Place(ctx);
    }

    /** To be asked once. */
    boolean isLeft() {
        boolean wasRerouted = !ctx.removeHeadersEndHandler(mark);
        return wasRerouted || ctx.failed() != hadFailed || ctx.response().headWritten() != wasBegun;
    }
}
