package io.github.spillgate.http;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * What rules read of a request. An adapter answers for the request of its framework; nothing here reads the body, and no method
 * blocks. Nothing that it returns is trusted.
 */
public interface Request {

    /**
     * Returns the method.
     *
     * @return such as {@code GET}
     */
    String method();

    /**
     * Returns who holds the other end of the connection, as far as the framework tells.
     *
     * @return the address, as text and without a port; null if there is none
     */
    @Nullable
    String peer();

    /**
     * Returns the values of a header field.
     *
     * @param name the name, in any case
     * @return the values of all its lines, in their order; empty if there are none
     */
    List<String> headers(String name);

    /**
     * Returns the values of a parameter of the query.
     *
     * @param name the name
     * @return the values, decoded; empty if there are none
     */
    List<String> queryParameters(String name);

    /**
     * Returns the values of a cookie.
     *
     * @param name the name
     * @return the values of all of that name; empty if there are none
     */
    List<String> cookies(String name);

    /**
     * Returns the variables that the framework has found in the path by itself. They are those of rules that name no path.
     *
     * @return the values, decoded, by their names; empty if there are none, or not yet
     */
    Map<String, String> pathVariables();

    /**
     * Looks up the authenticated user.
     *
     * @return the name, an empty text if the user has none; empty if the request is not authenticated, or is anonymous
     */
    Mono<String> principal();

    /**
     * Returns what some part of the service has noted on the request.
     *
     * @param name the name of the attribute
     * @return its value as text, if there is one
     */
    Optional<String> attribute(String name);

    /**
     * Returns what has been decided on this request until now.
     *
     * @return the same object whenever it is asked for, also where the request is dispatched again inside of the service
     */
    Verdicts verdicts();

    /**
     * Returns whether a browser has sent this request by itself, to ask whether it may send another one. It sends no credentials with
     * one; with them it could be a way to try passwords.
     *
     * @return whether it is a CORS preflight, and has neither {@code Authorization} nor {@code Cookie}
     */
    default boolean isPreflight() {
        return method().equals("OPTIONS")
                && !headers("Origin").isEmpty()
                && !headers("Access-Control-Request-Method").isEmpty()
                && headers("Authorization").isEmpty()
                && headers("Cookie").isEmpty();
    }

    /**
     * Brings an answer to where this request is handled, whichever thread it came on; what rules are asked about a request outside of
     * the filters is answered there.
     *
     * @param answer the answer
     * @param <T> what it is
     * @return the same; wherever it comes, unless the adapter knows better
     */
    default <T> Mono<T> atHome(Mono<T> answer) {
        return answer;
    }

    /**
     * Returns the framework's own request, for functions that are written for one framework.
     *
     * @param type what is expected, such as {@code ServerWebExchange.class} or {@code RoutingContext.class}
     * @param <T> the same
     * @return the request as that
     * @throws IllegalArgumentException if it is something else
     */
    <T> T as(Class<T> type);
}
