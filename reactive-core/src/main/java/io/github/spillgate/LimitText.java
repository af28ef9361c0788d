package io.github.spillgate;

import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Reads the text form of a {@link Limit}. Its messages are parts of sentences: {@link Limit#parse(String)} says the
 * rest.
 */
final class LimitText {

    private static final Pattern RATE = Pattern.compile("(-?\\d{1,18})/(\\S+)");

    private LimitText() {}

    static Limit parse(String text) {
        String[] words = text.strip().split("\\s+", -1);
        Matcher rate = RATE.matcher(words[0]);
        if (!rate.matches()) {
            throw new IllegalArgumentException(
                    "expected permits/window, with at most 18 digits, but found " + Text.quote(words[0]));
        }
        long permits = Long.parseLong(rate.group(1));
        Duration window = duration("window", rate.group(2));

        Words said = new Words();
        for (int i = 1; i < words.length; i++) {
            said.take(words[i]);
        }
        return said.applyTo(permits, window);
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

    /** The words after the rate: each at most once, none contradicting another. */
    private static final class Words {
        private final Set<String> seen = new HashSet<>();
        private boolean counter;
        private boolean aligned;
        private boolean countingDenied;
        private @Nullable Duration resolution;
        private @Nullable String name;

        void take(String word) {
            int equals = word.indexOf('=');
            String head = equals < 0 ? word : word.substring(0, equals + 1);
            String tail = word.substring(head.length());
            switch (head) {
                case "log" -> once("log or counter");
                case "counter" -> {
                    once("log or counter");
                    counter = true;
                }
                case "aligned" -> {
                    once(head);
                    aligned = true;
                }
                case "counting-denied" -> {
                    once(head);
                    countingDenied = true;
                }
                case "resolution=" -> {
                    once(head);
                    resolution = duration("resolution", tail);
                }
                case "name=" -> {
                    once(head);
                    name = tail;
                }
                default ->
                    throw new IllegalArgumentException("the word " + Text.quote(word)
                            + " is none of log, counter, aligned, resolution=…, counting-denied, name=…");
            }
        }

        private void once(String word) {
            if (!seen.add(word)) {
                throw new IllegalArgumentException(word + " is said twice");
            }
        }

        Limit applyTo(long permits, Duration window) {
            if (aligned && !counter) {
                throw new IllegalArgumentException("aligned is for a counter only");
            }
            if (resolution != null && counter) {
                throw new IllegalArgumentException("resolution=… is for a log only");
            }
            Limit limit = counter ? Limit.counter(permits, window) : Limit.of(permits, window);
            if (aligned) {
                limit = limit.alignedToClock();
            }
            if (resolution != null) {
                limit = limit.resolution(resolution);
            }
            if (countingDenied) {
                limit = limit.countingDenied();
            }
            return name == null ? limit : limit.named(name);
        }
    }
}
