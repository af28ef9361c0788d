package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.http.RequestVerdicts;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.http.response.ResponseFields;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.EventLoop;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.core.http.impl.HttpServerConnection;
import io.vertx.ext.web.RoutingContext;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.RejectedExecutionException;
import org.jspecify.annotations.Nullable;

/** The verdicts on a request, and the state of its current decision, for all handlers that the request passes. */
final class LimitedRequest {

    private static final String KEY = LimitedRequest.class.getName();

    private final RequestVerdicts verdicts = new RequestVerdicts();

    /** The header fields that report the verdicts; null before the first one that depends on the response. */
    private @Nullable RateLimitHeaders headers;

    /** The id of our headers end handler. */
    private int headersEndHandler;

    private volatile boolean isPaused;
    private boolean isDeciding;
    private @Nullable Runnable deferred;

    private LimitedRequest() {}

    static List<Decision> decisions(RoutingContext ctx) {
        LimitedRequest limited = ctx.get(KEY);
        return limited == null ? List.of() : limited.verdicts.decisions();
    }

    static RequestVerdicts verdicts(RoutingContext ctx) {
        return of(ctx).verdicts;
    }

    /** Returns whether a handler has decided on the request before, or is deciding. */
    static boolean isPresent(RoutingContext ctx) {
        return ctx.get(KEY) != null;
    }

    /** Applies a verdict to a request: records it for the response, and returns the problem if it is a denial. */
    static Optional<Problem> apply(RoutingContext ctx, Verdict verdict, RateLimitHeaders headers) {
        LimitedRequest limited = of(ctx);
        // A failure handler may reroute a denied request to an error page, to which the same rules apply.
        limited.verdicts.denialSent();
        return limited.record(ctx, verdict, headers);
    }

    /**
     * Applies a verdict to a request that another handler has rerouted, failed or answered during the decision. The
     * response still reports the verdict if possible, and its status still decides on refunds.
     */
    static void applyLate(RoutingContext ctx, Verdict verdict, RateLimitHeaders headers) {
        LimitedRequest limited = of(ctx);
        HttpServerResponse response = ctx.response();
        if (response.ended()) {
            Optional<Problem> unused = limited.verdicts.note(verdict);
            limited.refund(response);
            limited.settleAndRelease();
        } else if (response.closed()) {
            limited.verdicts.release();
        } else {
            Optional<Problem> unused = limited.record(ctx, verdict, headers);
        }
    }

    private Optional<Problem> record(RoutingContext ctx, Verdict verdict, RateLimitHeaders fields) {
        if (!verdict.dependsOnResponse()) {
            return verdict.problem();
        }
        if (headers == null) {
            headers = fields;
            headersEndHandler = addHeadersEndHandler(ctx, fields);
            addEndHandlers(ctx);
        }
        if (isOver(ctx.response())) {
            // On a worker, the response may have ended before the handlers were added.
            verdicts.release();
        }
        return verdicts.note(verdict);
    }

    private int addHeadersEndHandler(RoutingContext ctx, RateLimitHeaders fields) {
        HttpServerResponse response = ctx.response();
        return ctx.addHeadersEndHandler(end -> {
            verdicts.write(fields, new Fields(response));
            refund(response);
        });
    }

    private void addEndHandlers(RoutingContext ctx) {
        ctx.addEndHandler(sent -> {
            if (sent.succeeded()) {
                // A reroute that bypasses the limiter removes only the headers end handler. Refunds are idempotent.
                refund(ctx.response());
            }
            // Also if the client has disconnected.
            settleAndRelease();
        });
        if (ctx.request().connection() instanceof HttpServerConnection connection) {
            endWithConnection(ctx, connection.channelHandlerContext().channel());
        }
    }

    /**
     * Ends with the connection at the latest. Vert.x (tried with 5.1.6) calls no end handler after an upgrade to
     * WebSocket, after {@code toNetSocket}, or if the client disconnects during {@code sendFile}.
     */
    private void endWithConnection(RoutingContext ctx, Channel channel) {
        // Netty calls the close handler of the socket one task later, or two if a write noticed the disconnection.
        ChannelFutureListener closed = future -> endAfterTasks(channel.eventLoop(), 3);
        channel.closeFuture().addListener(closed);
        ctx.addEndHandler(sent -> channel.closeFuture().removeListener(closed));
    }

    private void endAfterTasks(EventLoop loop, int tasks) {
        if (tasks == 0) {
            settleAndRelease();
            return;
        }
        try {
            loop.execute(() -> endAfterTasks(loop, tasks - 1));
        } catch (RejectedExecutionException e) {
            // The server is shutting down.
            settleAndRelease();
        }
    }

    /** Starts the refunds that the status causes. The response cannot wait for them: the handlers are synchronous. */
    private void refund(HttpServerResponse response) {
        verdicts.refund(response.getStatusCode()).subscribe();
    }

    private void settleAndRelease() {
        verdicts.settle().subscribe();
        verdicts.release();
    }

    /** Releases permits of concurrency limits. For a request that does not continue. */
    static void release(RoutingContext ctx) {
        of(ctx).verdicts.release();
    }

    /** Returns whether the client has disconnected, or another handler, such as a timeout, has responded. */
    static boolean isOver(HttpServerResponse response) {
        return response.ended() || response.closed();
    }

    /** Adds the headers end handler again, if there was one: a reroute removes all of them. */
    void restoreHeadersEndHandler(RoutingContext ctx) {
        if (headers != null) {
            ctx.removeHeadersEndHandler(headersEndHandler);
            headersEndHandler = addHeadersEndHandler(ctx, headers);
        }
    }

    synchronized void startDecision() {
        isDeciding = true;
    }

    synchronized boolean isDeciding() {
        return isDeciding;
    }

    /**
     * Defers a task until the current decision is made, and returns whether it did so. The task replaces an earlier
     * one: a reroute has abandoned its handler.
     */
    synchronized boolean defer(Runnable task) {
        if (isDeciding) {
            deferred = task;
        }
        return isDeciding;
    }

    /** Ends the current decision, and returns the deferred task; null if there is none. */
    synchronized @Nullable Runnable endDecision() {
        Runnable task = deferred;
        isDeciding = false;
        deferred = null;
        return task;
    }

    void pause(HttpServerRequest sent) {
        if (!sent.isEnded()) {
            isPaused = true;
            sent.pause();
        }
    }

    /** Resumes the request if the limiter has paused it. A pause by another handler stays. */
    void resume(HttpServerRequest sent) {
        if (isPaused) {
            isPaused = false;
            if (!sent.isEnded()) {
                sent.resume();
            }
        }
    }

    static LimitedRequest of(RoutingContext ctx) {
        LimitedRequest limited = ctx.get(KEY);
        if (limited == null) {
            limited = new LimitedRequest();
            ctx.put(KEY, limited);
        }
        return limited;
    }

    /** The header fields of a Vert.x response. */
    private record Fields(HttpServerResponse response) implements ResponseFields {

        @Override
        public List<String> get(String name) {
            return response.headers().getAll(name);
        }

        @Override
        public void set(String name, String value) {
            response.putHeader(name, value);
        }
    }
}
