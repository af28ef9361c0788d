package io.github.spillgate.http.response;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.BiConsumer;

/**
 * The response body of a denied request, as in RFC 9457:
 *
 * <pre>{@code
 * {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
 *  "title":"Request cannot be satisfied as assigned quota has been exceeded",
 *  "status":429,"violated-policies":["1m"],"retry-after":17}
 * }</pre>
 *
 * <p>Policies have the names that {@link RateLimitHeaders} uses. {@code retry-after} has the value of {@code
 * Retry-After}, and is missing if waiting does not help. The body contains nothing from the request: no key, and
 * nothing that a page could execute.
 */
public final class Problem {

    private static final int BAD_REQUEST = 400;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final int SERVICE_UNAVAILABLE = 503;

    private final int status;
    private final String type;
    private final String title;
    private final List<String> violated;
    private final OptionalLong retryAfter;

    private Problem(int status, String type, String title, List<String> violated, OptionalLong retryAfter) {
        this.status = status;
        this.type = type;
        this.title = title;
        this.violated = violated;
        this.retryAfter = retryAfter;
    }

    /**
     * Returns the problem of a denied request. The status is 429 if a limit or the limiter denied it; the type says
     * whether a {@linkplain Limit.Ban ban} did. It is 503 if only a {@linkplain Source#FALLBACK fallback} setting
     * denied it because the store did not answer, or only a pause, which are not the client's fault.
     *
     * @param decisions all decisions on the request, in order
     * @return the problem
     * @throws IllegalArgumentException if none of them is a denial
     */
    public static Problem of(List<Decision> decisions) {
        boolean isDenied = false;
        boolean isOnlyByFallback = true;
        for (Decision decision : decisions) {
            if (!decision.isAllowed()) {
                isDenied = true;
                isOnlyByFallback &= decision.source() == Source.FALLBACK || isPaused(decision);
            }
        }
        if (!isDenied) {
            throw new IllegalArgumentException(decisions + " contain no denial: expected at least one");
        }
        OptionalLong retryAfter = QuotaPolicy.retryAfterSeconds(decisions);
        if (isOnlyByFallback) {
            return reducedCapacity(retryAfter);
        }
        List<QuotaPolicy> violated =
                QuotaPolicy.of(decisions).stream().filter(QuotaPolicy::violated).toList();
        List<String> names = violated.stream().map(QuotaPolicy::name).toList();
        return violated.stream().anyMatch(policy -> isBan(policy.limit()))
                ? tooManyRequests(
                        RateLimitDraft11.ABNORMAL_USAGE, RateLimitDraft11.ABNORMAL_USAGE_TITLE, names, retryAfter)
                : quotaExceeded(names, retryAfter);
    }

    /** Returns whether only pauses deny. */
    private static boolean isPaused(Decision decision) {
        return !decision.violated().isEmpty()
                && decision.violated().stream().allMatch(limit -> !limit.takesPermits() && !isBan(limit));
    }

    private static boolean isBan(Limit limit) {
        return limit instanceof Limit.Ban ban && !ban.isPause();
    }

    /**
     * Returns the problem of a request on which no decision was possible because of an error, with status 503.
     *
     * @return the problem
     */
    public static Problem undecided() {
        return reducedCapacity(OptionalLong.empty());
    }

    /**
     * Returns the problem of a request without a key for limits that require one: 429, and waiting does not help. No
     * ban or pause is violated.
     *
     * @param limits the limits
     * @return the problem
     */
    public static Problem withoutKey(List<Limit> limits) {
        List<String> violated =
                limits.stream().filter(Limit::takesPermits).map(Limit::name).toList();
        return quotaExceeded(violated, OptionalLong.empty());
    }

    /**
     * Returns the problem of a request with several different values of its key: 400, and no policy is violated.
     *
     * @return the problem
     */
    public static Problem ambiguousKey() {
        return new Problem(
                BAD_REQUEST,
                "about:blank",
                "Several different values of a field, parameter or cookie that identifies the client: expected one",
                List.of(),
                OptionalLong.empty());
    }

    private static Problem quotaExceeded(List<String> violated, OptionalLong retryAfter) {
        return tooManyRequests(
                RateLimitDraft11.QUOTA_EXCEEDED, RateLimitDraft11.QUOTA_EXCEEDED_TITLE, violated, retryAfter);
    }

    private static Problem tooManyRequests(String type, String title, List<String> violated, OptionalLong retryAfter) {
        return new Problem(TOO_MANY_REQUESTS, type, title, violated, retryAfter);
    }

    private static Problem reducedCapacity(OptionalLong retryAfter) {
        return new Problem(
                SERVICE_UNAVAILABLE,
                RateLimitDraft11.REDUCED_CAPACITY,
                RateLimitDraft11.REDUCED_CAPACITY_TITLE,
                List.of(),
                retryAfter);
    }

    /**
     * Returns the status of the response.
     *
     * @return 429, 503, or 400 if the request is ambiguous
     */
    public int status() {
        return status;
    }

    /**
     * Writes the header fields of the body: its content type, and {@code Cache-Control: no-store}, because a cached
     * denial would deny later requests.
     *
     * @param headers the consumer of the name and the value of each field
     */
    public void writeHeaders(BiConsumer<String, String> headers) {
        headers.accept("Content-Type", "application/problem+json");
        headers.accept("Cache-Control", "no-store");
    }

    /**
     * Returns the body.
     *
     * @return the bytes, a new array for each call
     */
    public byte[] body() {
        return toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** Returns the body as text. */
    @Override
    public String toString() {
        StringBuilder json = new StringBuilder(256).append("{\"type\":");
        appendString(json, type);
        json.append(",\"title\":");
        appendString(json, title);
        json.append(",\"status\":")
                .append(status)
                .append(",\"")
                .append(RateLimitDraft11.VIOLATED_POLICIES)
                .append("\":[");
        for (int i = 0; i < violated.size(); i++) {
            json.append(i == 0 ? "" : ",");
            appendString(json, violated.get(i));
        }
        json.append(']');
        retryAfter.ifPresent(seconds -> json.append(",\"retry-after\":").append(seconds));
        return json.append('}').toString();
    }

    /** Appends a JSON string in ASCII, a subset of UTF-8; unpaired surrogates need no encoding. */
    static void appendString(StringBuilder json, String value) {
        json.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c >= ' ' && c <= '~') {
                json.append(c);
            } else {
                json.append("\\u");
                for (int shift = 12; shift >= 0; shift -= 4) {
                    json.append(Character.forDigit(c >> shift & 0xf, 16));
                }
            }
        }
        json.append('"');
    }
}
