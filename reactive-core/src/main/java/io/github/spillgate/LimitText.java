package io.github.spillgate;

import io.github.spillgate.internal.QuotaCalendar;
import io.github.spillgate.internal.Text;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.LocalTime;
import java.time.ZoneId;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The text form of a {@link Limit}. Error messages of the parser are parts of sentences, which {@link
 * Limit#parse(String)} completes.
 */
final class LimitText {

    private static final Pattern RATE = Pattern.compile("(-?\\d{1,18})/(\\S+)");
    private static final Pattern NUMBER = Pattern.compile("-?\\d{1,18}");
    private static final Pattern DURATION = Pattern.compile("(\\d{1,12})(ms|s|m|h|d)");
    private static final Pattern PERCENT = Pattern.compile("(\\d{1,3})%");
    private static final Pattern DAY = Pattern.compile("\\d{1,2}");
    private static final Pattern TIME = Pattern.compile("\\d{2}:\\d{2}");
    private static final String CONCURRENT = "concurrent";
    private static final String BAN = "ban";
    private static final String PAUSABLE = "pausable";
    private static final String QUOTA_EXAMPLE = "\"10000 monthly zone=Europe/Berlin from=15\"";
    private static final Map<String, QuotaCalendar.Unit> UNITS = Arrays.stream(QuotaCalendar.Unit.values())
            .collect(Collectors.toUnmodifiableMap(Limit.Quota::nameOf, unit -> unit));

    private LimitText() {}

    static Limit parse(String text) {
        String[] words = text.strip().split("\\s+", -1);
        if (words.length > 1
                && words[1].equals(CONCURRENT)
                && NUMBER.matcher(words[0]).matches()) {
            return Words.of(words, 2).applyTo(Limit.concurrent(Long.parseLong(words[0])));
        }
        if (words[0].equals(BAN)) {
            return ban(words);
        }
        if (words[0].equals(PAUSABLE)) {
            return Words.of(words, 1).applyTo(Limit.pausable());
        }
        QuotaCalendar.Unit unit = unit(words);
        if (unit != null) {
            return Words.of(words, 2).applyTo(Limit.quota(Long.parseLong(words[0]), unit));
        }
        Matcher rate = RATE.matcher(words[0]);
        if (!rate.matches()) {
            throw new IllegalArgumentException(
                    "expected permits/window, with at most 18 digits, or permits and one of the words concurrent,"
                            + " daily, weekly, monthly, yearly, or a ban, or pausable, but found "
                            + Text.quote(words[0]));
        }
        long permits = Long.parseLong(rate.group(1));
        return Words.of(words, 1).applyTo(permits, duration("window", rate.group(2)));
    }

    private static Limit ban(String[] words) {
        Matcher after = RATE.matcher(words.length > 3 ? words[3] : "");
        if (words.length < 4 || !words[2].equals("after") || !after.matches()) {
            throw new IllegalArgumentException("expected ban, its time, after, and denials/window, but found "
                    + Text.quote(String.join(" ", words)));
        }
        long denials = Long.parseLong(after.group(1));
        return Words.of(words, 4)
                .applyTo(Limit.ban(duration("time", words[1]), denials, duration("window", after.group(2))));
    }

    /** Returns an example of the kind of limit that a text begins like. */
    static String example(String text) {
        String[] words = text.strip().split("\\s+", -1);
        return switch (words[0]) {
            case BAN -> "\"ban 1h after 3/10m\"";
            case PAUSABLE -> "\"pausable name=partner\"";
            default -> unit(words) == null ? Limit.EXAMPLE : QUOTA_EXAMPLE;
        };
    }

    private static QuotaCalendar.@Nullable Unit unit(String[] words) {
        return words.length > 1 && NUMBER.matcher(words[0]).matches() ? UNITS.get(words[1]) : null;
    }

    private static ZoneId zone(String text) {
        try {
            return ZoneId.of(text);
        } catch (DateTimeException e) {
            throw new IllegalArgumentException(
                    "zone " + Text.quote(text)
                            + " is unknown: expected one of the time-zone database or an offset, such as Europe/Berlin"
                            + " or +05:30",
                    e);
        }
    }

    private static LocalTime time(String text) {
        try {
            if (TIME.matcher(text).matches()) {
                return LocalTime.parse(text);
            }
        } catch (DateTimeException e) {
            // Named below, like a text of another form.
        }
        throw new IllegalArgumentException(
                "at " + Text.quote(text) + " is not a time of the day: expected 00:00 to 23:59, such as 06:00");
    }

    private static int day(String text) {
        if (!DAY.matcher(text).matches()) {
            throw new IllegalArgumentException(
                    "from " + Text.quote(text) + " is not a day of the month: expected 1 to 31, such as 15");
        }
        return Integer.parseInt(text);
    }

    private static int percent(String text) {
        Matcher percent = PERCENT.matcher(text);
        if (!percent.matches()) {
            throw new IllegalArgumentException(
                    "near " + Text.quote(text) + " is not a percentage: expected 1% to 100%, such as 80%");
        }
        return Integer.parseInt(percent.group(1));
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
        private boolean growing;
        private @Nullable Long burst;
        private @Nullable Duration resolution;
        private @Nullable Duration hold;
        private @Nullable Duration retry;
        private @Nullable ZoneId zone;
        private @Nullable LocalTime at;
        private @Nullable Integer from;
        private @Nullable Integer near;
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
                case "growing" -> growing = true;
                case "burst=" -> burst = burst(tail);
                case "hold=" -> hold = duration("hold time", tail);
                case "retry=" -> retry = duration("retry time", tail);
                case "resolution=" -> resolution = duration("resolution", tail);
                case "zone=" -> zone = zone(tail);
                case "at=" -> at = time(tail);
                case "from=" -> from = day(tail);
                case "near=" -> near = percent(tail);
                case "name=" -> name = tail;
                default ->
                    throw new IllegalArgumentException("the word " + Text.quote(word)
                            + " is none of log, counter, aligned, burst=…, resolution=…, counting-denied,"
                            + " leased, growing, hold=…, retry=…, zone=…, at=…, from=…, near=…, name=…");
            }
        }

        private static long burst(String text) {
            if (!NUMBER.matcher(text).matches()) {
                throw new IllegalArgumentException(
                        "burst " + Text.quote(text) + " is not a number of at most 18 digits");
            }
            return Long.parseLong(text);
        }

        /** Fails if there are other words than these. */
        private void checkOnly(String what, Set<String> allowed) {
            for (String word : seen) {
                if (!allowed.contains(word)) {
                    throw new IllegalArgumentException(what + ", but found " + Text.quote(word));
                }
            }
        }

        Limit applyTo(Limit.Ban ban) {
            if (ban.isPause()) {
                checkOnly("pausable has only name=…", Set.of("name="));
            } else {
                checkOnly("a ban has only growing and name=…", Set.of("growing", "name="));
            }
            return withRest(growing ? ban.growing() : ban);
        }

        Limit applyTo(Limit.Quota quota) {
            checkOnly(
                    "a quota has only zone=…, at=…, from=…, counting-denied, near=… and name=…",
                    Set.of("zone=", "at=", "from=", "counting-denied", "near=", "name="));
            if (from != null && !quota.name().equals("monthly")) {
                throw new IllegalArgumentException("from=… is for a monthly quota only");
            }
            Limit.Quota placed = zone == null ? quota : quota.in(zone);
            placed = at == null ? placed : placed.at(at);
            placed = from == null ? placed : placed.from(from);
            return withRest(placed);
        }

        Limit applyTo(Limit concurrent) {
            checkOnly(
                    "a concurrency limit has only hold=…, retry=…, near=… and name=…",
                    Set.of("hold=", "retry=", "near=", "name="));
            Limit limit = hold == null ? concurrent : concurrent.hold(hold);
            if (retry != null) {
                limit = limit.retryAfter(retry);
            }
            return withRest(limit);
        }

        Limit applyTo(long permits, Duration window) {
            if (hold != null) {
                throw new IllegalArgumentException("hold=… is for a concurrency limit only, such as 20 concurrent");
            }
            if (retry != null) {
                throw new IllegalArgumentException("retry=… is for a concurrency limit only, such as 20 concurrent");
            }
            if (growing) {
                throw new IllegalArgumentException("growing is for a ban only, such as ban 1h after 3/10m");
            }
            if (zone != null || at != null || from != null) {
                throw new IllegalArgumentException(
                        "zone=…, at=… and from=… are for a calendar quota only, such as 500 daily");
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
            return withRest(limit);
        }

        /** Adds the words that several kinds have. */
        private Limit withRest(Limit limit) {
            Limit all = countingDenied ? limit.countingDenied() : limit;
            all = leased ? all.leased() : all;
            all = near == null ? all : all.near(near);
            return name == null ? all : all.named(name);
        }
    }
}
