package io.github.spillgate.vertx;

import io.github.spillgate.http.Problem;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.ext.web.RoutingContext;

/** Answers a request that was denied. The header fields that tell of limits are written besides. */
@FunctionalInterface
public interface DenialWriter {

    /**
     * Ends the response, or fails the request; does not call {@code next()}.
     *
     * @param ctx the request, of whose response nothing is written yet
     * @param problem why it was denied
     */
    void write(RoutingContext ctx, Problem problem);

    /**
     * Writes the problem as JSON, with its status.
     *
     * @return what does so
     */
    static DenialWriter ofProblem() {
        return (ctx, problem) -> {
            HttpServerResponse response = ctx.response().setStatusCode(problem.status());
            problem.writeHeaders(response::putHeader);
            response.end(Buffer.buffer(problem.body()));
        };
    }

    /**
     * Fails the request with the problem's status and a {@link DeniedException}, so that the failure handlers of its route or the error
     * handlers of its router answer.
     *
     * @return what does so
     */
    static DenialWriter failing() {
        return (ctx, problem) -> {
            ctx.response().putHeader("Cache-Control", "no-store");
            ctx.fail(problem.status(), new DeniedException(problem));
        };
    }
}
