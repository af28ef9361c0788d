package io.github.spillgate;

import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The text form of a duration in a limit: {@code 250ms}, {@code 10s}, {@code 1m}, {@code 24h}, {@code 7d}. */
final class Durations {

    private static final Pattern TEXT = Pattern.compile("(\\d{1,12})(ms|s|m|h|d)");

    private Durations() {}

    /** Parses a duration. Returns null if the text is not one. */
    static @Nullable Duration parse(String text) {
        Matcher matcher = TEXT.matcher(text);
        if (!matcher.matches()) {
            return null;
        }
        long amount = Long.parseLong(matcher.group(1));
        return switch (matcher.group(2)) {
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
}
