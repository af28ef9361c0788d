package io.github.spillgate.vertx;

import io.github.spillgate.http.response.Problem;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.ext.web.RoutingContext;

/** A writer of the response to a denied request. The rate limit header fields are written separately. */
@FunctionalInterface
public interface DenialWriter {

    /**
     * Ends the response or fails the request; does not call {@code next()}.
     *
     * @param ctx the request; nothing of its response is written yet
     * @param problem the reason for the denial
     */
    void write(RoutingContext ctx, Problem problem);

    /**
     * Returns a writer of the problem as JSON, with its status.
     *
     * @return the writer
     */
    static DenialWriter ofProblem() {
        return (ctx, problem) -> {
            HttpServerResponse response = ctx.response().setStatusCode(problem.status());
            problem.writeHeaders(response::putHeader);
            response.end(Buffer.buffer(problem.body()));
        };
    }

    /**
     * Returns a writer that fails the request with the problem's status and a {@link DeniedException}, so that the
     * failure handlers of the route or the error handlers of the router respond.
     *
     * @return the writer
     */
    static DenialWriter failing() {
        return (ctx, problem) -> {
            ctx.response().putHeader("Cache-Control", "no-store");
            ctx.fail(problem.status(), new DeniedException(problem));
        };
    }
}
