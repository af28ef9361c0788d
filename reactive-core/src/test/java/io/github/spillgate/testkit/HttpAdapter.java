package io.github.spillgate.testkit;

import io.github.spillgate.Decision;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.response.RateLimitHeaders;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.List;

/**
 * An adapter under test: starts a small service of its framework on a real server, for the tests of
 * {@link HttpContract}.
 *
 * <p>The service has two phases of rules with an authentication between them. The authentication believes any name in a
 * field {@code X-User}, and also admits requests without that field. The service answers:
 *
 * <table>
 * <caption>Responses of the service</caption>
 * <tr><td>{@code GET} and {@code HEAD /hello}</td><td>{@code hello}</td></tr>
 * <tr><td>{@code POST /hello}</td><td>{@code hello}, for any body</td></tr>
 * <tr><td>{@code POST /echo}</td><td>{@link #echo(byte[])}</td></tr>
 * <tr><td>{@code GET /status/<code>}</td><td>nothing, with that status</td></tr>
 * <tr><td>{@code GET /items/<id>}</td><td>{@code item <id>}</td></tr>
 * <tr><td>{@code GET /own}</td><td>a field {@code X-RateLimit-Limit} with the value {@value #OWN}</td></tr>
 * <tr><td>{@code GET /open}</td><td>to scripts of all origins, which may read a field {@code X-Own}</td></tr>
 * <tr><td>{@code GET /cost/<n>}</td><td>{@code costs <n>}, after a real cost of {@code n} was set</td></tr>
 * <tr><td>{@code GET /stream/<n>}</td><td>{@code n} parts {@link #PART}, a millisecond apart; before each of them a
 * real cost of all parts so far is set for the rule {@code parts}</td></tr>
 * <tr><td>{@code GET /failing}</td><td>an error, after a real cost of 3 for all rules was set</td></tr>
 * <tr><td>{@code GET /hold/<ms>}</td><td>{@code held}, after so many milliseconds; this and the next three count as
 * {@link Setup#work() work} until they have ended</td></tr>
 * <tr><td>{@code GET /hold/stream}</td><td>parts {@link #PART} without end, a millisecond apart</td></tr>
 * <tr><td>{@code POST /hold/upload}</td><td>{@code uploaded}, after the body was read in parts</td></tr>
 * <tr><td>{@code GET /socket}</td><td>a WebSocket that returns each message</td></tr>
 * <tr><td>{@code GET /decisions}</td><td>{@link #text(List)} of the decisions that the handler sees</td></tr>
 * </table>
 */
public interface HttpAdapter {

    /** The value that the handler of {@code /own} sets itself. */
    String OWN = "of the handler";

    /** A part of a stream, large enough that it is sent at once. */
    String PART = "part ".repeat(200);

    /** Returns the syntax in which users of the adapter write paths. */
    PathSyntax syntax();

    /** Translates a pattern such as {@code /items/{id}} or {@code /items/**} into that syntax. */
    String pattern(String pattern);

    /** Returns whether the server of the service upgrades to WebSocket. */
    default boolean hasWebSockets() {
        return true;
    }

    /**
     * Returns whether the server cancels a handler on the thread of its response. Otherwise a handler that is writing
     * may end shortly after it was cancelled, and one that reads a body may never notice that its client is gone.
     */
    default boolean cancelsOnOneThread() {
        return true;
    }

    /** Starts the service with HTTP/1.1 and, without encryption, HTTP/2. */
    Server start(Setup setup);

    /** Returns the body that {@code /echo} answers: the length of the request's body, and its digest. */
    static String echo(byte[] body) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(body);
            return body.length + " " + Base64.getEncoder().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * Returns the body that {@code /decisions} answers: the outcome, the source and the remaining permits of each
     * decision.
     */
    static String text(List<Decision> decisions) {
        return String.join(
                "; ",
                decisions.stream()
                        .map(decision -> (decision.isAllowed() ? "allowed" : "denied") + " by " + decision.source()
                                + ", " + decision.remaining() + " left")
                        .toList());
    }

    interface Server extends AutoCloseable {

        int port();

        @Override
        void close();
    }

    /**
     * The settings of a service.
     *
     * @param rules the rules for all requests
     * @param headers the fields of responses
     * @param handled the action that each handler runs for each request
     * @param work the counter of handlers that run for a time
     */
    record Setup(Rules rules, RateLimitHeaders headers, Runnable handled, RunningWork work) {}
}
