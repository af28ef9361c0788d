package io.github.spillgate.http;

import java.time.Duration;
import java.util.List;

/**
 * All that we know of draft-ietf-httpapi-ratelimit-headers-11: the fields {@code RateLimit-Policy} and
 * {@code RateLimit}, and its types of problems. The draft still changes, and what changes with it is here.
 */
final class RateLimitDraft11 {

    static final String POLICY = "RateLimit-Policy";
    static final String RATE_LIMIT = "RateLimit";

    static final String QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    static final String QUOTA_EXCEEDED_TITLE = "Request cannot be satisfied as assigned quota has been exceeded";

    static final String REDUCED_CAPACITY = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    static final String REDUCED_CAPACITY_TITLE =
            "Request cannot be satisfied due to temporary server capacity constraints";

    static final String VIOLATED_POLICIES = "violated-policies";

    private static final String QUOTA = "q";
    private static final String WINDOW = "w";
    private static final String AVAILABLE = "r";
    private static final String EFFECTIVE_WINDOW = "t";

    private RateLimitDraft11() {}

    /**
     * Returns what the limits say; empty if there is none, which is no field. A window is told if it is whole seconds.
     */
    static String policyField(List<Policy> policies) {
        StringBuilder field = new StringBuilder();
        for (Policy policy : policies) {
            appendItem(field, policy);
            StructuredField.appendParameter(field, QUOTA, policy.limit().permits());
            Duration window = policy.limit().window();
            if (window.toNanosPart() == 0) {
                StructuredField.appendParameter(field, WINDOW, window.toSeconds());
            }
        }
        return field.toString();
    }

    /**
     * Returns how far the limits are used; empty if that is known of none, which is no field.
     *
     * <p>The effective window is the time within which no more than what is available may be used. It is never longer
     * than the window of the policy. Retry-After, which clients prefer, may point later, and never points earlier.
     */
    static String rateLimitField(List<Policy> policies) {
        StringBuilder field = new StringBuilder();
        for (Policy policy : policies) {
            Policy.State state = policy.state();
            if (state != null) {
                appendItem(field, policy);
                StructuredField.appendParameter(field, AVAILABLE, state.remaining());
                StructuredField.appendParameter(
                        field, EFFECTIVE_WINDOW, state.seconds(policy.limit().window()));
            }
        }
        return field.toString();
    }

    private static void appendItem(StringBuilder field, Policy policy) {
        if (!field.isEmpty()) {
            field.append(", ");
        }
        StructuredField.appendString(field, policy.name());
    }
}
