package io.github.spillgate.http.response;

import java.time.Duration;
import java.util.List;

/**
 * The names and formats of draft-ietf-httpapi-ratelimit-headers-11: the fields {@code RateLimit-Policy} and
 * {@code RateLimit}, and the types of problems. They are in one class because the draft still changes.
 */
final class RateLimitDraft11 {

    static final String POLICY = "RateLimit-Policy";
    static final String RATE_LIMIT = "RateLimit";

    static final String QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    static final String QUOTA_EXCEEDED_TITLE = "Request cannot be satisfied as assigned quota has been exceeded";

    static final String REDUCED_CAPACITY = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    static final String REDUCED_CAPACITY_TITLE =
            "Request cannot be satisfied due to temporary server capacity constraints";

    static final String ABNORMAL_USAGE = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";
    static final String ABNORMAL_USAGE_TITLE = "Request not satisfied due to detection of abnormal request pattern";

    static final String VIOLATED_POLICIES = "violated-policies";

    /** The largest Integer of a structured field: 15 digits. */
    static final long MOST_INTEGER = 999_999_999_999_999L;

    /** The length of most fields with one item. */
    private static final int LENGTH = 48;

    private static final String QUOTA = "q";
    private static final String WINDOW = "w";
    private static final String AVAILABLE = "r";
    private static final String EFFECTIVE_WINDOW = "t";

    private RateLimitDraft11() {}

    /**
     * Returns the value of {@code RateLimit-Policy}; empty for no field. A window is written if it is whole seconds.
     */
    static String policyField(List<QuotaPolicy> policies) {
        StringBuilder field = new StringBuilder(LENGTH);
        for (QuotaPolicy policy : policies) {
            appendItem(field, policy);
            appendParameter(field, QUOTA, policy.limit().capacity());
            Duration window = policy.limit().quotaWindow();
            if (window.toNanosPart() == 0) {
                appendParameter(field, WINDOW, window.toSeconds());
            }
        }
        return field.toString();
    }

    /**
     * Returns the value of {@code RateLimit}; empty for no field, if the usage of no limit is known.
     *
     * <p>The effective window is the time in which no more than the available permits may be used, at most the window
     * of the policy. {@code Retry-After}, which clients prefer, may be later and is never earlier.
     */
    static String rateLimitField(List<QuotaPolicy> policies) {
        StringBuilder field = new StringBuilder(LENGTH);
        for (QuotaPolicy policy : policies) {
            QuotaPolicy.State state = policy.state();
            if (state != null) {
                appendItem(field, policy);
                appendParameter(field, AVAILABLE, state.remaining());
                appendParameter(field, EFFECTIVE_WINDOW, state.seconds(policy.limit()));
            }
        }
        return field.toString();
    }

    private static void appendItem(StringBuilder field, QuotaPolicy policy) {
        if (!field.isEmpty()) {
            field.append(", ");
        }
        appendString(field, policy.name());
    }

    /** Appends a String of a structured field (RFC 9651): printable ASCII, with question marks for all others. */
    static void appendString(StringBuilder field, String value) {
        field.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                field.append('\\');
            }
            field.append(c >= ' ' && c <= '~' ? c : '?');
        }
        field.append('"');
    }

    /** Appends an Integer parameter of a structured field, cut to the valid range from 0. */
    static void appendParameter(StringBuilder field, String name, long value) {
        field.append(';').append(name).append('=').append(Math.max(0, Math.min(value, MOST_INTEGER)));
    }
}
