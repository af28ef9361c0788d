package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;

/**
 * Writes what was decided into header fields, in three groups, each of which can be switched off:
 *
 * <table>
 * <caption>Groups of header fields</caption>
 * <tr><th>fields</th><th>what they tell</th></tr>
 * <tr><td>{@code RateLimit-Policy}, {@code RateLimit}</td><td>what each limit says, and how far it is used, as in
 * draft-ietf-httpapi-ratelimit-headers-11</td></tr>
 * <tr><td>{@code X-RateLimit-Limit}, {@code X-RateLimit-Remaining}, {@code X-RateLimit-Reset}</td><td>the same of the limit that a
 * client has to mind most; the last one in seconds since 1970, by the clock of the store that decided</td></tr>
 * <tr><td>{@code Retry-After}</td><td>after a denial, for how many seconds to wait; missing where no wait helps</td></tr>
 * </table>
 *
 * All seconds are rounded up, so that nobody who keeps to them comes too early.
 *
 * <p>Limits are called by their {@linkplain Limit#named(String) names}. Several keys under equal limits are one policy, told as it
 * is for the key that has the least left. Different limits of one name are told apart by a number, as in {@code 1m#2}, which
 * depends on their order: give limits names of their own where a request may fall under several. No key is ever told.
 *
 * <p>{@code t} of {@code RateLimit} is the time within which no more than what remains may be used: until the same request fits
 * after a denial, until nothing is used any more otherwise, and the window where nothing is used. It is never longer than the
 * window, {@code w}.
 *
 * <p>{@code X-RateLimit-Reset} is the end of {@code t} while something remains. Where nothing remains, or the limit denied, a
 * client may wait for it, so it is not cut to the window: a log can need one slot more, and a counter a second window. The same
 * holds for {@code Retry-After}.
 *
 * <p>Immutable, and safe for use by several threads.
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
     * All three groups.
     *
     * @return what writes them
     */
    public static RateLimitHeaders all() {
        return ALL;
    }

    /**
     * The same with or without {@code RateLimit-Policy} and {@code RateLimit}.
     *
     * @param written whether they are written
     * @return what writes that
     */
    public RateLimitHeaders rateLimit(boolean written) {
        return new RateLimitHeaders(written, xRateLimit, retryAfter);
    }

    /**
     * The same with or without {@code X-RateLimit-Limit}, {@code X-RateLimit-Remaining} and {@code X-RateLimit-Reset}.
     *
     * @param written whether they are written
     * @return what writes that
     */
    public RateLimitHeaders xRateLimit(boolean written) {
        return new RateLimitHeaders(rateLimit, written, retryAfter);
    }

    /**
     * The same with or without {@code Retry-After}.
     *
     * @param written whether it is written
     * @return what writes that
     */
    public RateLimitHeaders retryAfter(boolean written) {
        return new RateLimitHeaders(rateLimit, xRateLimit, written);
    }

    /**
     * Returns the names of the fields that may be written. A browser shows them to a script from another origin only if the
     * response exposes them, by {@code Access-Control-Expose-Headers}.
     *
     * @return the names, in the order in which the fields are written
     */
    public List<String> names() {
        return names;
    }

    /**
     * Writes the fields of a response. What is not known is not written, and no value is ever empty.
     *
     * @param decisions all that were made on the request, in their order; after an error, none
     * @param headers takes the name and the value of each field, each name at most once
     */
    public void write(List<Decision> decisions, BiConsumer<String, String> headers) {
        if (rateLimit || xRateLimit) {
            List<Policy> policies = Policy.of(decisions);
            if (rateLimit) {
                writeUnlessEmpty(RateLimitDraft11.POLICY, RateLimitDraft11.policyField(policies), headers);
                writeUnlessEmpty(RateLimitDraft11.RATE_LIMIT, RateLimitDraft11.rateLimitField(policies), headers);
            }
            if (xRateLimit) {
                writeTightest(policies, headers);
            }
        }
        if (retryAfter) {
            Seconds.untilAllowed(decisions).ifPresent(seconds -> headers.accept(RETRY_AFTER, Long.toString(seconds)));
        }
    }

    private static void writeTightest(List<Policy> policies, BiConsumer<String, String> headers) {
        Policy policy = Policy.tightest(policies);
        Policy.State state = policy == null ? null : policy.state();
        if (policy != null && state != null) {
            headers.accept(LIMIT, Long.toString(policy.limit().permits()));
            headers.accept(REMAINING, Long.toString(state.remaining()));
            headers.accept(RESET, Long.toString(Seconds.ofEpoch(state.until())));
        }
    }

    private static void writeUnlessEmpty(String name, String value, BiConsumer<String, String> headers) {
        if (!value.isEmpty()) {
            headers.accept(name, value);
        }
    }

    /** Returns the settings for a log. */
    @Override
    public String toString() {
        return "RateLimitHeaders" + names;
    }
}
