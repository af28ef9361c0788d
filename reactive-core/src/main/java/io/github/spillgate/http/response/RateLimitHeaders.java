package io.github.spillgate.http.response;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;

/**
 * The header fields that report decisions, in three groups that can be disabled separately:
 *
 * <table>
 * <caption>Groups of header fields</caption>
 * <tr><th>fields</th><th>content</th></tr>
 * <tr><td>{@code RateLimit-Policy}, {@code RateLimit}</td><td>each limit, and how much of it is left, as in
 * draft-ietf-httpapi-ratelimit-headers-11</td></tr>
 * <tr><td>{@code X-RateLimit-Limit}, {@code X-RateLimit-Remaining}, {@code X-RateLimit-Reset}</td><td>the same for the
 * tightest limit; {@code X-RateLimit-Reset} in seconds since 1970, by the clock of the store that decided</td></tr>
 * <tr><td>{@code Retry-After}</td><td>after a denial, the number of seconds to wait; missing if waiting does not
 * help</td></tr>
 * </table>
 *
 * <p>All seconds are rounded up, so that a client that waits for them does not return too early.
 *
 * <p>Limits have their {@linkplain Limit#named(String) names}. Several keys under equal limits are one policy, with the
 * state of the key that has the least left. Different limits with the same name get a number, as in {@code 1m#2}, which
 * depends on their order: name the limits if a request may fall under several. Keys are never written.
 *
 * <p>{@code t} of {@code RateLimit} is the time in which no more than the remaining permits may be used: after a denial
 * until the same request fits; otherwise until all permits are back; and the window if none is used. It is never longer
 * than the window {@code w}.
 *
 * <p>{@code X-RateLimit-Reset} is the end of {@code t} while permits remain. If none remain, or if the limit denied the
 * request, a client may wait for it, so it is not cut to the window: a log can need one more slot, and a counter a
 * second window. The same holds for {@code Retry-After}.
 *
 * <p>For a token bucket, the quota is the burst, and the window is the time in which an empty bucket is filled.
 *
 * <p>Immutable and thread-safe.
 */
public final class RateLimitHeaders {

    private static final String LIMIT = "X-RateLimit-Limit";
    private static final String REMAINING = "X-RateLimit-Remaining";
    private static final String RESET = "X-RateLimit-Reset";
    private static final String RETRY_AFTER = "Retry-After";

    private static final RateLimitHeaders ALL = new RateLimitHeaders(true, true, true);

    private final boolean rateLimit;
    private final boolean xRateLimit;
    private final boolean retryAfter;
    private final List<String> names;

    private RateLimitHeaders(boolean rateLimit, boolean xRateLimit, boolean retryAfter) {
        this.rateLimit = rateLimit;
        this.xRateLimit = xRateLimit;
        this.retryAfter = retryAfter;
        List<String> names = new ArrayList<>();
        if (rateLimit) {
            names.add(RateLimitDraft11.POLICY);
            names.add(RateLimitDraft11.RATE_LIMIT);
        }
        if (xRateLimit) {
            names.addAll(List.of(LIMIT, REMAINING, RESET));
        }
        if (retryAfter) {
            names.add(RETRY_AFTER);
        }
        this.names = List.copyOf(names);
    }

    /**
     * Returns all three groups.
     *
     * @return the header fields
     */
    public static RateLimitHeaders all() {
        return ALL;
    }

    /**
     * Returns a copy with or without {@code RateLimit-Policy} and {@code RateLimit}.
     *
     * @param written whether they are written
     * @return the header fields
     */
    public RateLimitHeaders rateLimit(boolean written) {
        return new RateLimitHeaders(written, xRateLimit, retryAfter);
    }

    /**
     * Returns a copy with or without {@code X-RateLimit-Limit}, {@code X-RateLimit-Remaining} and {@code
     * X-RateLimit-Reset}.
     *
     * @param written whether they are written
     * @return the header fields
     */
    public RateLimitHeaders xRateLimit(boolean written) {
        return new RateLimitHeaders(rateLimit, written, retryAfter);
    }

    /**
     * Returns a copy with or without {@code Retry-After}.
     *
     * @param written whether it is written
     * @return the header fields
     */
    public RateLimitHeaders retryAfter(boolean written) {
        return new RateLimitHeaders(rateLimit, xRateLimit, written);
    }

    /**
     * Returns the names of the fields that may be written. A browser shows them to a script of another origin only if
     * the response exposes them with {@code Access-Control-Expose-Headers}.
     *
     * @return the names, in the order in which the fields are written
     */
    public List<String> names() {
        return names;
    }

    /**
     * Writes the fields of a response. Unknown values are omitted; no value is empty. The fields describe a quota in a
     * window. A concurrency limit has no window, and neither has a ban, so these have only {@code Retry-After}, after a
     * denial.
     *
     * @param decisions all decisions on the request, in order; none after an error
     * @param headers the consumer of the name and the value of each field; it gets each name at most once
     */
    public void write(List<Decision> decisions, BiConsumer<String, String> headers) {
        if (rateLimit || xRateLimit) {
            List<QuotaPolicy> policies = QuotaPolicy.of(decisions);
            policies.removeIf(
                    policy -> policy.limit().holdsPermits() || !policy.limit().takesPermits());
            if (rateLimit) {
                writeUnlessEmpty(RateLimitDraft11.POLICY, RateLimitDraft11.policyField(policies), headers);
                writeUnlessEmpty(RateLimitDraft11.RATE_LIMIT, RateLimitDraft11.rateLimitField(policies), headers);
            }
            if (xRateLimit) {
                writeTightest(policies, headers);
            }
        }
        if (retryAfter) {
            QuotaPolicy.retryAfterSeconds(decisions)
                    .ifPresent(seconds -> headers.accept(RETRY_AFTER, Long.toString(seconds)));
        }
    }

    private static void writeTightest(List<QuotaPolicy> policies, BiConsumer<String, String> headers) {
        QuotaPolicy policy = QuotaPolicy.tightest(policies);
        QuotaPolicy.State state = policy == null ? null : policy.state();
        if (policy != null && state != null) {
            headers.accept(LIMIT, Long.toString(policy.limit().capacity()));
            headers.accept(REMAINING, Long.toString(state.remaining()));
            headers.accept(RESET, Long.toString(state.resetEpochSecond()));
        }
    }

    private static void writeUnlessEmpty(String name, String value, BiConsumer<String, String> headers) {
        if (!value.isEmpty()) {
            headers.accept(name, value);
        }
    }

    /** Returns the settings for log messages. */
    @Override
    public String toString() {
        return "RateLimitHeaders" + names;
    }
}
