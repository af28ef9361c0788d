package io.github.spillgate.http.client;

import io.github.spillgate.internal.syntax.HttpTokens;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.StringTokenizer;
import java.util.function.Function;

/**
 * The header fields of a response that say how long its client must not send requests.
 *
 * <table>
 * <caption>Fields, in the order of their precedence</caption>
 * <tr><th>field</th><th>read as</th></tr>
 * <tr><td>{@code Retry-After}</td><td>seconds, or a date in one of the three formats of RFC 9110</td></tr>
 * <tr><td>{@code RateLimit}</td><td>{@code "default";r=0;t=30} of draft-ietf-httpapi-ratelimit-headers-08 to -11, and
 * {@code limit=100, remaining=0, reset=30} of -07</td></tr>
 * <tr><td>{@code RateLimit-Reset}, {@code X-RateLimit-Reset}, {@code X-Rate-Limit-Reset}</td><td>seconds from now, or
 * seconds or milliseconds since 1970, unless the field {@code …-Remaining} says that something is left</td></tr>
 * </table>
 *
 * <p>Of several values of a field, the longest wait counts; of several policies, the longest of those with nothing
 * left. A value that is no time in the future is ignored. No wait is longer than the longest pause, and no input throws
 * an exception.
 */
public final class RetryFields {

    private static final int TOO_MANY_REQUESTS = 429;
    private static final int SERVICE_UNAVAILABLE = 503;

    /** The pause after a 429 that does not say how long. */
    private static final Duration UNSPECIFIED = Duration.ofSeconds(1);

    private static final List<String> RESETS = List.of("RateLimit-", "X-RateLimit-", "X-Rate-Limit-");

    /** Larger numbers are a time since 1970 in seconds (since 2001), and still larger ones in milliseconds. */
    private static final long LARGEST_DELAY = 1_000_000_000;

    private static final long LARGEST_SECOND = 1_000_000_000_000L;

    private static final int MOST_DIGITS = 15;

    private static final List<String> MONTHS =
            List.of("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec");

    private final Instant now;

    private RetryFields(Instant now) {
        this.now = now;
    }

    /**
     * Returns how long a response requires its client to pause. A 429 without a usable field requires 1 s; a 503
     * without one, and any other response, requires nothing.
     *
     * @param status the status of the response
     * @param fields returns the values of all lines of a field; empty if there are none
     * @param now the present time
     * @param longest the longest pause
     * @return a positive duration, at most the longest pause; empty if the response requires no pause
     */
    public static Optional<Duration> pause(
            int status, Function<String, List<String>> fields, Instant now, Duration longest) {
        if (status != TOO_MANY_REQUESTS && status != SERVICE_UNAVAILABLE) {
            return Optional.empty();
        }
        Duration found = new RetryFields(now).wait(fields);
        if (found.isZero()) {
            if (status == SERVICE_UNAVAILABLE) {
                return Optional.empty();
            }
            found = UNSPECIFIED;
        }
        return Optional.of(found.compareTo(longest) > 0 ? longest : found);
    }

    /** Returns the wait of the first usable field; zero if there is none. */
    private Duration wait(Function<String, List<String>> fields) {
        Duration found = longest(fields.apply("Retry-After"));
        if (found.isZero()) {
            found = ofPolicies(String.join(",", fields.apply("RateLimit")));
        }
        for (String prefix : RESETS) {
            List<String> left = fields.apply(prefix + "Remaining");
            if (found.isZero() && (left.isEmpty() || left.stream().anyMatch(RetryFields::isZero))) {
                found = longest(fields.apply(prefix + "Reset"));
            }
        }
        return found;
    }

    private Duration longest(List<String> values) {
        Duration longest = Duration.ZERO;
        for (String value : values) {
            longest = longer(longest, wait(value.strip()));
        }
        return longest;
    }

    private static Duration longer(Duration one, Duration other) {
        return one.compareTo(other) > 0 ? one : other;
    }

    private static boolean isZero(String number) {
        String stripped = number.strip();
        return !stripped.isEmpty() && stripped.chars().allMatch(c -> c == '0');
    }

    /** Returns the longest wait of the policies with nothing left: those of a list, or the one of a dictionary. */
    private Duration ofPolicies(String field) {
        Duration longest = Duration.ZERO;
        boolean isNothingLeft = false;
        Duration reset = Duration.ZERO;
        for (String member : split(field, ',')) {
            boolean isPolicyUsedUp = false;
            Duration window = Duration.ZERO;
            for (String part : split(member, ';')) {
                int equals = part.indexOf('=');
                String name = equals < 0 ? "" : part.substring(0, equals).strip();
                String value = part.substring(equals + 1).strip();
                switch (name) {
                    case "r" -> isPolicyUsedUp = isZero(value);
                    case "t" -> window = wait(value);
                    case "remaining" -> isNothingLeft = isZero(value);
                    case "reset" -> reset = wait(value);
                    default -> {}
                }
            }
            longest = isPolicyUsedUp ? longer(longest, window) : longest;
        }
        return isNothingLeft ? longer(longest, reset) : longest;
    }

    /** Splits a text where a separator is outside of a quoted string. */
    private static List<String> split(String text, char separator) {
        List<String> parts = new ArrayList<>();
        boolean isQuoted = false;
        int start = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"') {
                isQuoted = !isQuoted;
            } else if (c == '\\' && isQuoted) {
                i++;
            } else if (c == separator && !isQuoted) {
                parts.add(text.substring(start, i));
                start = i + 1;
            }
        }
        parts.add(text.substring(start));
        return parts;
    }

    /** Returns the time until a delay has passed or a date is reached; zero if that is not in the future. */
    private Duration wait(String value) {
        int point = value.indexOf('.');
        String whole = point < 0 ? value : value.substring(0, point);
        String fraction = point < 0 ? "" : value.substring(point + 1);
        Duration wait = isNumber(whole) && fraction.chars().allMatch(c -> HttpTokens.isDigit((char) c))
                ? ofNumber(Long.parseLong(whole), !isZero("0" + fraction))
                : untilDate(value);
        return wait.isNegative() ? Duration.ZERO : wait;
    }

    private static boolean isNumber(String text) {
        return !text.isEmpty()
                && text.length() <= MOST_DIGITS
                && text.chars().allMatch(c -> HttpTokens.isDigit((char) c));
    }

    private Duration ofNumber(long number, boolean hasFraction) {
        long roundedUp = hasFraction ? number + 1 : number;
        if (roundedUp < LARGEST_DELAY) {
            return Duration.ofSeconds(roundedUp);
        }
        return Duration.between(
                now, roundedUp < LARGEST_SECOND ? Instant.ofEpochSecond(roundedUp) : Instant.ofEpochMilli(roundedUp));
    }

    /** Reads {@code Sun, 06 Nov 1994 08:49:37 GMT}, {@code Sunday, 06-Nov-94 08:49:37 GMT} and asctime's format. */
    private Duration untilDate(String value) {
        List<String> parts = new ArrayList<>();
        new StringTokenizer(value, " ,:-").asIterator().forEachRemaining(part -> parts.add((String) part));
        boolean isAsctime = parts.size() == 7;
        if (!isAsctime && !(parts.size() == 8 && parts.get(7).equals("GMT"))) {
            return Duration.ZERO;
        }
        int month = MONTHS.indexOf(parts.get(isAsctime ? 1 : 2));
        String day = parts.get(isAsctime ? 2 : 1);
        String year = parts.get(isAsctime ? 6 : 3);
        List<String> time = isAsctime ? parts.subList(3, 6) : parts.subList(4, 7);
        if (month < 0 || !isNumber(day) || !isNumber(year) || !time.stream().allMatch(RetryFields::isNumber)) {
            return Duration.ZERO;
        }
        try {
            LocalDateTime date = LocalDateTime.of(
                    year(year),
                    month + 1,
                    Integer.parseInt(day),
                    Integer.parseInt(time.get(0)),
                    Integer.parseInt(time.get(1)),
                    // A leap second.
                    Math.min(59, Integer.parseInt(time.get(2))));
            return Duration.between(now, date.toInstant(ZoneOffset.UTC));
        } catch (DateTimeException | NumberFormatException e) {
            return Duration.ZERO;
        }
    }

    /** Two digits mean the year that is at most 50 years in the future. */
    private int year(String digits) {
        int year = Integer.parseInt(digits);
        if (digits.length() > 2) {
            return year;
        }
        int present = now.atZone(ZoneOffset.UTC).getYear();
        int inThisCentury = present - present % 100 + year;
        return inThisCentury > present + 50 ? inThisCentury - 100 : inThisCentury;
    }
}
