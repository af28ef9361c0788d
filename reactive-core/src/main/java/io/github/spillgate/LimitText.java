package io.github.spillgate;

import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The text form of a {@link Limit}. Error messages of the parser are parts of sentences, which {@link
 * Limit#parse(String)} completes.
 */
final class LimitText {

    private static final Pattern RATE = Pattern.compile("(-?\\d{1,18})/(\\S+)");
    private static final Pattern NUMBER = Pattern.compile("-?\\d{1,18}");
    private static final Pattern DURATION = Pattern.compile("(\\d{1,12})(ms|s|m|h|d)");
    private static final String CONCURRENT = "concurrent";

    private LimitText() {}

    static Limit parse(String text) {
        String[] words = text.strip().split("\\s+", -1);
        if (words.length > 1
                && words[1].equals(CONCURRENT)
                && NUMBER.matcher(words[0]).matches()) {
            return Words.of(words, 2).applyTo(Limit.concurrent(Long.parseLong(words[0])));
        }
        Matcher rate = RATE.matcher(words[0]);
        if (!rate.matches()) {
            throw new IllegalArgumentException(
                    "expected permits/window, with at most 18 digits, or permits and the word concurrent, but found "
                            + Text.quote(words[0]));
        }
        long permits = Long.parseLong(rate.group(1));
        return Words.of(words, 1).applyTo(permits, duration("window", rate.group(2)));
    }

    private static Duration duration(String what, String text) {
        boolean bareUnit = !text.isEmpty() && !Character.isDigit(text.charAt(0));
        Matcher duration = DURATION.matcher(bareUnit ? "1" + text : text);
        if (!duration.matches()) {
            throw new IllegalArgumentException(
                    what + " " + Text.quote(text) + " is not a number of at most 12 digits and one of ms, s, m, h, d");
        }
        long amount = Long.parseLong(duration.group(1));
        return switch (duration.group(2)) {
            case "ms" -> Duration.ofMillis(amount);
            case "s" -> Duration.ofSeconds(amount);
            case "m" -> Duration.ofSeconds(amount * 60);
            case "h" -> Duration.ofSeconds(amount * 3_600);
            default -> Duration.ofSeconds(amount * 86_400);
        };
    }

    /** Returns the shortest text of a duration in milliseconds. A single day is {@code 24h}, as is customary. */
    static String format(long millis) {
        if (millis % 86_400_000 == 0 && millis > 86_400_000) {
            return millis / 86_400_000 + "d";
        }
        if (millis % 3_600_000 == 0) {
            return millis / 3_600_000 + "h";
        }
        if (millis % 60_000 == 0) {
            return millis / 60_000 + "m";
        }
        return millis % 1_000 == 0 ? millis / 1_000 + "s" : millis + "ms";
    }

    /** Appends a word with a duration in milliseconds, unless that is the default. */
    static void append(StringBuilder text, String word, long millis, long byDefault) {
        if (millis != byDefault) {
            text.append(word).append(format(millis));
        }
    }

    /** The words after the rate. Each occurs at most once, and none contradicts another. */
    private static final class Words {
        private final Set<String> seen = new HashSet<>();
        private boolean log;
        private boolean counter;
        private boolean aligned;
        private boolean countingDenied;
        private boolean leased;
        private @Nullable Long burst;
        private @Nullable Duration resolution;
        private @Nullable Duration hold;
        private @Nullable Duration retry;
        private @Nullable String name;

        static Words of(String[] words, int from) {
            Words given = new Words();
            for (int i = from; i < words.length; i++) {
                given.add(words[i]);
            }
            return given;
        }

        void add(String word) {
            int equals = word.indexOf('=');
            String head = equals < 0 ? word : word.substring(0, equals + 1);
            String tail = word.substring(head.length());
            String kind = head.equals("log") || head.equals("counter") ? "log or counter" : head;
            if (!seen.add(kind)) {
                throw new IllegalArgumentException(kind + " is there twice");
            }
            switch (head) {
                case "log" -> log = true;
                case "counter" -> counter = true;
                case "aligned" -> aligned = true;
                case "counting-denied" -> countingDenied = true;
                case "leased" -> leased = true;
                case "burst=" -> burst = burst(tail);
                case "hold=" -> hold = duration("hold time", tail);
                case "retry=" -> retry = duration("retry time", tail);
                case "resolution=" -> resolution = duration("resolution", tail);
                case "name=" -> name = tail;
                default ->
                    throw new IllegalArgumentException("the word " + Text.quote(word)
                            + " is none of log, counter, aligned, burst=…, resolution=…, counting-denied,"
                            + " leased, hold=…, retry=…, name=…");
            }
        }

        private static long burst(String text) {
            if (!NUMBER.matcher(text).matches()) {
                throw new IllegalArgumentException(
                        "burst " + Text.quote(text) + " is not a number of at most 18 digits");
            }
            return Long.parseLong(text);
        }

        Limit applyTo(Limit concurrent) {
            for (String word : seen) {
                if (!word.equals("hold=") && !word.equals("retry=") && !word.equals("name=")) {
                    throw new IllegalArgumentException("a concurrency limit has only hold=…, retry=… and name=…, but"
                            + " found " + Text.quote(word));
                }
            }
            Limit limit = hold == null ? concurrent : concurrent.hold(hold);
            if (retry != null) {
                limit = limit.retryAfter(retry);
            }
            return name == null ? limit : limit.named(name);
        }

        Limit applyTo(long permits, Duration window) {
            if (hold != null) {
                throw new IllegalArgumentException("hold=… is for a concurrency limit only, such as 20 concurrent");
            }
            if (retry != null) {
                throw new IllegalArgumentException("retry=… is for a concurrency limit only, such as 20 concurrent");
            }
            if (aligned && !counter) {
                throw new IllegalArgumentException("aligned is for a counter only");
            }
            if (leased && (counter || countingDenied)) {
                throw new IllegalArgumentException(
                        "leased is for a log or a token bucket that does not count denied requests");
            }
            if (burst != null && (log || counter)) {
                throw new IllegalArgumentException("burst=… is neither for a log nor for a counter");
            }
            if (resolution != null && (counter || burst != null)) {
                throw new IllegalArgumentException("resolution=… is for a log only");
            }
            Limit limit = burst != null
                    ? Limit.bucket(permits, window, burst)
                    : counter ? Limit.counter(permits, window) : Limit.of(permits, window);
            if (aligned) {
                limit = limit.alignedToClock();
            }
            if (resolution != null) {
                limit = limit.resolution(resolution);
            }
            if (countingDenied) {
                limit = limit.countingDenied();
            }
            if (leased) {
                limit = limit.leased();
            }
            return name == null ? limit : limit.named(name);
        }
    }
}
