package io.github.spillgate.internal;

import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.temporal.ChronoUnit;

/**
 * The calendar of a quota: days, weeks, months or years in a time zone, each from a time of the day on.
 *
 * <p>The periods tile the time line. If the clocks of the zone are set forward over a boundary, that is later by as
 * much as they were, and if they are set back over it, it is the first of both times. So a date that the zone has
 * skipped has no period.
 *
 * @param unit the length of a period
 * @param zone the time zone
 * @param at the time of the day at which a period begins
 * @param from of months, the day on which a period begins, 1 to 31: the last day of a month that is shorter; otherwise
 *     1
 */
public record QuotaCalendar(Unit unit, ZoneId zone, LocalTime at, int from) {

    /** The fifth of January 1970, as the number of its day. */
    private static final int FIRST_MONDAY = 4;

    private static final YearMonth FIRST_MONTH = YearMonth.of(1970, 1);

    /** The units of a calendar. */
    public enum Unit {
        /** Days. */
        DAILY(1),

        /** Weeks, which begin on Monday. */
        WEEKLY(7),

        /** Months. */
        MONTHLY(31),

        /** Years, which begin on the first of January. */
        YEARLY(366);

        /** The number of days in the longest period. It is longer by what the clocks of the zone are set back. */
        public final int longestDays;

        Unit(int longestDays) {
            this.longestDays = longestDays;
        }
    }

    /**
     * A period.
     *
     * @param start its first millisecond since 1970, not negative
     * @param end the first millisecond after it, in which the next period starts
     */
    public record Period(long start, long end) {

        /** Returns whether a time is in this period. */
        public boolean contains(long millis) {
            return start <= millis && millis < end;
        }
    }

    /** Returns the period that contains a time, in milliseconds since 1970. */
    public Period periodAt(long millis) {
        LocalDate date = Instant.ofEpochMilli(millis).atZone(zone).toLocalDate();
        // A boundary may be on another date than its own, by the time of the day and by clocks that were set.
        long n = numberOf(date) - 1;
        long start = boundary(n);
        while (start > millis) {
            n--;
            start = boundary(n);
        }
        long end = boundary(++n);
        while (end <= millis) {
            start = end;
            end = boundary(++n);
        }
        return new Period(Math.max(0, start), end);
    }

    private long numberOf(LocalDate date) {
        return switch (unit) {
            case DAILY -> date.toEpochDay();
            case WEEKLY -> Math.floorDiv(date.toEpochDay() - FIRST_MONDAY, 7L);
            case MONTHLY -> ChronoUnit.MONTHS.between(FIRST_MONTH, YearMonth.from(date));
            case YEARLY -> date.getYear();
        };
    }

    private long boundary(long number) {
        return dateOf(number).atTime(at).atZone(zone).toInstant().toEpochMilli();
    }

    private LocalDate dateOf(long number) {
        return switch (unit) {
            case DAILY -> LocalDate.ofEpochDay(number);
            case WEEKLY -> LocalDate.ofEpochDay(FIRST_MONDAY + 7 * number);
            case MONTHLY -> {
                YearMonth month = FIRST_MONTH.plusMonths(number);
                yield month.atDay(Math.min(from, month.lengthOfMonth()));
            }
            case YEARLY -> LocalDate.ofYearDay((int) number, 1);
        };
    }
}
