package io.github.spillgate.http.client;

import io.github.spillgate.HoldExpiredException;
import java.util.List;
import reactor.core.publisher.Mono;

/**
 * What {@link OutgoingRequests} need of a response of an HTTP client.
 *
 * @param <R> the type of the response
 */
public interface ResponseAccess<R> {

    /**
     * Returns the status.
     *
     * @param response the response
     * @return the status, such as 200
     */
    int status(R response);

    /**
     * Returns the values of a header field.
     *
     * @param response the response
     * @param field the name, in any case
     * @return the values of all its lines; empty if there are none
     */
    List<String> values(R response, String field);

    /**
     * Discards the body, so that the connection can be used again. Cancelling closes the connection.
     *
     * @param response the response
     * @return completes when the body has been read
     */
    Mono<Void> release(R response);

    /**
     * Returns a response that reports the end of its body. Called only if a permit is held until then.
     *
     * @param response the response
     * @param lost fails with {@link HoldExpiredException} if the permit is lost; the body must then be cancelled
     * @param ended runs when the body has been read, has failed or was cancelled; it may be called more than once
     * @return the response to use
     */
    R whileHolding(R response, Mono<R> lost, Runnable ended);
}
