package io.github.spillgate;

import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A parser of the text form of a {@link Limit}. Its error messages are parts of sentences, which {@link
 * Limit#parse(String)} completes.
 */
final class LimitText {

    private static final Pattern RATE = Pattern.compile("(-?\\d{1,18})/(\\S+)");
    private static final Pattern NUMBER = Pattern.compile("-?\\d{1,18}");
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
        Duration duration = Durations.parse(bareUnit ? "1" + text : text);
        if (duration == null) {
            throw new IllegalArgumentException(
                    what + " " + Text.quote(text) + " is not a number of at most 12 digits and one of ms, s, m, h, d");
        }
        return duration;
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
            switch (head) {
                case "log" -> {
                    checkFirst("log or counter");
                    log = true;
                }
                case "counter" -> {
                    checkFirst("log or counter");
                    counter = true;
                }
                case "aligned" -> {
                    checkFirst(head);
                    aligned = true;
                }
                case "counting-denied" -> {
                    checkFirst(head);
                    countingDenied = true;
                }
                case "leased" -> {
                    checkFirst(head);
                    leased = true;
                }
                case "burst=" -> {
                    checkFirst(head);
                    burst = burst(tail);
                }
                case "hold=" -> {
                    checkFirst(head);
                    hold = duration("hold time", tail);
                }
                case "retry=" -> {
                    checkFirst(head);
                    retry = duration("retry time", tail);
                }
                case "resolution=" -> {
                    checkFirst(head);
                    resolution = duration("resolution", tail);
                }
                case "name=" -> {
                    checkFirst(head);
                    name = tail;
                }
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

        private void checkFirst(String word) {
            if (!seen.add(word)) {
                throw new IllegalArgumentException(word + " is there twice");
            }
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
