package io.github.spillgate.vertx;

import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.http.client.ResponseAccess;
import io.github.spillgate.internal.Checks;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpResponseHead;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Supplier;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;

/**
 * {@link OutgoingRequests} with futures, for the HTTP client of Vert.x and for its Web Client.
 *
 * <pre>{@code
 * OutgoingRequests outgoing = OutgoingRequests.builder(limiter).build();
 * Future<Buffer> rates = FutureRequests.of(vertx, outgoing)
 *         .send("api.partner.com", true, () -> client.request(GET, "/rates").compose(HttpClientRequest::send))
 *         .compose(HttpClientResponse::body);
 * }</pre>
 */
public final class FutureRequests {

    private final Vertx vertx;
    private final OutgoingRequests requests;

    private FutureRequests(Vertx vertx, OutgoingRequests requests) {
        this.vertx = vertx;
        this.requests = requests;
    }

    /**
     * Returns requests with futures.
     *
     * @param vertx the Vert.x instance; futures complete on its contexts
     * @param requests the requests
     * @return the requests with futures
     */
    public static FutureRequests of(Vertx vertx, OutgoingRequests requests) {
        Checks.present(vertx, "vertx", "Vertx.vertx()");
        Checks.present(requests, "requests", "OutgoingRequests.builder(limiter).build()");
        return new FutureRequests(vertx, requests);
    }

    /**
     * Sends a request as soon as it gets a permit. A future cannot be cancelled, so a call may wait for all of its
     * longest wait. No response is awaited for a limited time: set a timeout in the client.
     *
     * @param key the key that is charged and paused, such as the host and port of the service
     * @param repeatable whether the request is sent again if it was refused; see {@link
     *     OutgoingRequests#isRepeatable(String, boolean)}
     * @param request creates and sends a request, on the context of the caller; called for each attempt
     * @param <R> the type of the response: {@link HttpClientResponse}, or that of the Web Client
     * @return the response, on the context of the caller; a {@link io.github.spillgate.RateLimitedException} if there
     *     is no permit within the longest wait, or if the request was refused and is not sent again
     * @see OutgoingRequests#send(String, boolean, Mono, ResponseAccess)
     */
    public <R extends HttpResponseHead> Future<R> send(String key, boolean repeatable, Supplier<Future<R>> request) {
        Checks.present(request, "request", "() -> client.request(HttpMethod.GET, \"/\").compose(r -> r.send())");
        Context context = vertx.getOrCreateContext();
        Mono<R> started = FutureRateLimiter.onContext(context, request);
        Promise<R> result = Promise.promise();
        // The response is delivered in the same task in which it arrived: later, its body would be lost.
        requests.send(key, repeatable, started, new Responses<R>(context))
                .subscribe(
                        response -> on(context, () -> result.complete(response)),
                        error -> on(context, () -> result.fail(error)),
                        // A function may return a future of null.
                        () -> on(context, result::tryComplete));
        return result.future();
    }

    private static void on(Context context, Runnable task) {
        if (Vertx.currentContext() == context) {
            task.run();
            return;
        }
        try {
            context.runOnContext(ignored -> task.run());
        } catch (RejectedExecutionException e) {
            // The context is closed, but the caller may still wait.
            task.run();
        }
    }

    /** The Web Client has read the body before it has a response. */
    private record Responses<R extends HttpResponseHead>(Context context) implements ResponseAccess<R> {

        @Override
        public int status(R response) {
            return response.statusCode();
        }

        @Override
        public List<String> values(R response, String field) {
            return response.headers().getAll(field);
        }

        @Override
        public Mono<Void> release(R response) {
            return response instanceof HttpClientResponse open
                    ? Mono.<Void>create(sink -> open.end().onComplete(sink::success, sink::error))
                            .doOnCancel(() -> close(open))
                    : Mono.empty();
        }

        @Override
        public R whileHolding(R response, Mono<R> lost, Runnable ended) {
            if (response instanceof HttpClientResponse open) {
                Disposable watch = lost.subscribe(none -> {}, expired -> close(open));
                open.end().onComplete(end -> {
                    watch.dispose();
                    ended.run();
                });
            } else {
                ended.run();
            }
            return response;
        }

        private void close(HttpClientResponse response) {
            on(context, () -> response.request().reset());
        }
    }
}
