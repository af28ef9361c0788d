package io.github.spillgate.http;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * The properties of a request that rules read. Each adapter implements it for its framework. It gives no access to the
 * body, and no method blocks. Returned values are not trusted.
 */
public interface Request {

    /**
     * Returns the method.
     *
     * @return a method such as {@code GET}
     */
    String method();

    /**
     * Returns the path that the router of the framework matches, within the application and without parameters that the
     * router ignores.
     *
     * @return the path, with a slash at its start, not decoded
     */
    String path();

    /**
     * Returns the other end of the connection, as far as the framework knows it.
     *
     * @return the address, as text and without a port; null if there is none
     */
    @Nullable
    String peer();

    /**
     * Returns the values of a header field.
     *
     * @param name the name, in any case
     * @return the values of all its lines, in order; empty if there are none
     */
    List<String> headers(String name);

    /**
     * Returns the values of a query parameter.
     *
     * @param name the name
     * @return the values, decoded; empty if there are none
     */
    List<String> queryParameters(String name);

    /**
     * Returns the values of a cookie.
     *
     * @param name the name
     * @return the values of all cookies of that name; empty if there are none
     */
    List<String> cookies(String name);

    /**
     * Returns the path variables that the framework itself has found. Rules without paths use them.
     *
     * @return the values, decoded, by name; empty if there are none, or none yet
     */
    Map<String, String> pathVariables();

    /**
     * Looks up the authenticated user.
     *
     * @return the name, an empty string if the user has none; empty if the request is not authenticated, or is
     *     anonymous
     */
    Mono<String> principal();

    /**
     * Returns a request attribute, which the service sets.
     *
     * @param name the name of the attribute
     * @return its value as text; empty if there is none
     */
    Optional<String> attribute(String name);

    /**
     * Returns the verdicts on this request.
     *
     * @return the same object on every call, even if the request is dispatched again within the service
     */
    RequestVerdicts verdicts();

    /**
     * Returns whether this request is a CORS preflight, which a browser sends to ask whether it may send another
     * request. A browser sends no credentials with a preflight; a request with credentials could be used to try
     * passwords.
     *
     * @return true for a CORS preflight without {@code Authorization} and {@code Cookie}
     */
    default boolean isPreflight() {
        return method().equals("OPTIONS")
                && !headers("Origin").isEmpty()
                && !headers("Access-Control-Request-Method").isEmpty()
                && headers("Authorization").isEmpty()
                && headers("Cookie").isEmpty();
    }

    /**
     * Moves a result to the thread on which this request is handled. It is used for results that are requested outside
     * of the filters, such as {@link Rules#peek(Request)}.
     *
     * @param result the result
     * @param <T> the type of the result
     * @return the result, by default unchanged; an adapter may switch threads
     */
    default <T> Mono<T> onRequestThread(Mono<T> result) {
        return result;
    }

    /**
     * Returns the framework's own request, for functions that are written for one framework.
     *
     * @param type the expected type, such as {@code ServerWebExchange.class} or {@code RoutingContext.class}
     * @param <T> the expected type
     * @return the request of that type
     * @throws IllegalArgumentException if the request has another type
     */
    <T> T as(Class<T> type);
}
