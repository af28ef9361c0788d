package io.github.spillgate.internal;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.internal.QuotaCalendar.Period;
import io.github.spillgate.internal.QuotaCalendar.Unit;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;

/** A table of boundaries that was written by hand, and what holds for all calendars. */
class QuotaCalendarTest {

    private static final List<String> ZONES =
            ZoneId.getAvailableZoneIds().stream().sorted().toList();

    /** The unit, the zone, the time and the day from which a period begins, and boundaries in UTC, in their order. */
    private static final String TABLE = """
            daily   Z                   00:00  1 2025-01-01T00:00 2025-01-02T00:00 2025-01-03T00:00
            daily   Z                   06:00  1 2025-01-01T06:00 2025-01-02T06:00 2025-01-03T06:00
            daily   Z                   00:00  1 2024-02-28T00:00 2024-02-29T00:00 2024-03-01T00:00
            daily   Z                   00:00  1 2025-02-28T00:00 2025-03-01T00:00
            daily   Europe/Berlin       00:00  1 2025-03-28T23:00 2025-03-29T23:00 2025-03-30T22:00 2025-03-31T22:00
            daily   Europe/Berlin       00:00  1 2025-10-25T22:00 2025-10-26T23:00 2025-10-27T23:00
            daily   Europe/Berlin       02:30  1 2025-03-29T01:30 2025-03-30T01:30 2025-03-31T00:30
            daily   Europe/Berlin       02:30  1 2025-10-25T00:30 2025-10-26T00:30 2025-10-27T01:30
            daily   America/New_York    00:00  1 2025-03-08T05:00 2025-03-09T05:00 2025-03-10T04:00
            daily   America/New_York    00:00  1 2025-11-01T04:00 2025-11-02T04:00 2025-11-03T05:00
            daily   America/Sao_Paulo   00:00  1 2018-11-03T03:00 2018-11-04T03:00 2018-11-05T02:00
            daily   America/Sao_Paulo   00:00  1 2019-02-16T02:00 2019-02-17T03:00 2019-02-18T03:00
            daily   America/St_Johns    00:00  1 2025-03-08T03:30 2025-03-09T03:30 2025-03-10T02:30
            daily   Australia/Lord_Howe 00:00  1 2025-04-04T13:00 2025-04-05T13:00 2025-04-06T13:30
            daily   +05:30              00:00  1 2024-12-31T18:30 2025-01-01T18:30
            daily   Pacific/Apia        00:00  1 2011-12-28T10:00 2011-12-29T10:00 2011-12-30T10:00 2011-12-31T10:00
            daily   Pacific/Apia        06:00  1 2011-12-28T16:00 2011-12-29T16:00 2011-12-30T16:00 2011-12-31T16:00
            daily   Pacific/Kwajalein   00:00  1 1993-08-19T12:00 1993-08-20T12:00 1993-08-21T12:00 1993-08-22T12:00
            daily   Asia/Pyongyang      00:00  1 2015-08-13T15:00 2015-08-14T15:30 2015-08-15T15:30
            daily   Asia/Pyongyang      00:00  1 2018-05-03T15:30 2018-05-04T15:00 2018-05-05T15:00
            daily   Europe/Moscow       00:00  1 2014-10-25T20:00 2014-10-26T21:00 2014-10-27T21:00
            daily   America/Caracas     00:00  1 2016-04-30T04:30 2016-05-01T04:30 2016-05-02T04:00
            weekly  Z                   00:00  1 1969-12-29T00:00 1970-01-05T00:00 1970-01-12T00:00
            weekly  Z                   00:00  1 2024-12-30T00:00 2025-01-06T00:00 2025-01-13T00:00
            weekly  America/New_York    00:00  1 2025-03-03T05:00 2025-03-10T04:00 2025-03-17T04:00
            weekly  Europe/Berlin       06:00  1 2025-03-24T05:00 2025-03-31T04:00
            monthly Z                   00:00  1 2024-02-01T00:00 2024-03-01T00:00 2024-04-01T00:00
            monthly Z                   00:00 31 2024-01-31T00:00 2024-02-29T00:00 2024-03-31T00:00 2024-04-30T00:00
            monthly Z                   00:00 31 2025-01-31T00:00 2025-02-28T00:00 2025-03-31T00:00
            monthly Z                   00:00 31 2100-01-31T00:00 2100-02-28T00:00 2100-03-31T00:00
            monthly Z                   00:00 30 2023-01-30T00:00 2023-02-28T00:00 2023-03-30T00:00
            monthly Z                   00:00 29 2024-01-29T00:00 2024-02-29T00:00 2024-03-29T00:00
            monthly Europe/Berlin       00:00 15 2025-03-14T23:00 2025-04-14T22:00 2025-05-14T22:00
            monthly Europe/Berlin       00:00 15 2025-10-14T22:00 2025-11-14T23:00
            monthly Europe/Berlin       06:00 31 2025-01-31T05:00 2025-02-28T05:00 2025-03-31T04:00 2025-04-30T04:00
            monthly Asia/Kathmandu      00:00  1 2024-12-31T18:15 2025-01-31T18:15 2025-02-28T18:15
            monthly Pacific/Chatham     00:00  1 2024-12-31T10:15 2025-01-31T10:15
            monthly Pacific/Apia        00:00 30 2011-11-30T10:00 2011-12-30T10:00 2012-01-29T10:00
            monthly America/Mexico_City 00:00  1 2022-05-01T05:00 2022-06-01T05:00
            monthly America/Mexico_City 00:00  1 2023-05-01T06:00 2023-06-01T06:00
            monthly Europe/Istanbul     00:00  1 2016-09-30T21:00 2016-10-31T21:00 2016-11-30T21:00
            yearly  Z                   00:00  1 2023-01-01T00:00 2024-01-01T00:00 2025-01-01T00:00
            yearly  Asia/Kolkata        00:00  1 2023-12-31T18:30 2024-12-31T18:30
            yearly  Europe/Berlin       06:00  1 2023-01-01T05:00 2024-01-01T05:00
            """;

    @Example
    void periodsBeginAndEndAtTheBoundariesOfTheTable() {
        int boundaries = 0;
        for (String row : TABLE.lines().toList()) {
            String[] words = row.split(" +", -1);
            QuotaCalendar calendar = new QuotaCalendar(
                    Unit.valueOf(words[0].toUpperCase(Locale.ROOT)),
                    ZoneId.of(words[1]),
                    LocalTime.parse(words[2]),
                    Integer.parseInt(words[3]));
            long[] times = Arrays.stream(words, 4, words.length)
                    .mapToLong(time -> Instant.parse(time + ":00Z").toEpochMilli())
                    .toArray();
            boundaries += times.length;
            for (int i = 1; i < times.length; i++) {
                Period period = new Period(Math.max(0, times[i - 1]), times[i]);
                for (long time : new long[] {times[i - 1], times[i - 1] / 2 + times[i] / 2, times[i] - 1}) {
                    assertThat(calendar.periodAt(time))
                            .as("%s, at %s", row, time)
                            .isEqualTo(period);
                }
            }
        }
        assertThat(boundaries).isGreaterThan(60);
    }

    @Property(tries = 2_000)
    void periodsTileTheTimeLine(
            @ForAll @IntRange(max = 10_000) int zone,
            @ForAll Unit unit,
            @ForAll @IntRange(max = 1_439) int minute,
            @ForAll @IntRange(min = 1, max = 31) int from,
            @ForAll @LongRange(min = 100_000_000_000L, max = 4_500_000_000_000L) long time) {
        QuotaCalendar calendar = new QuotaCalendar(
                unit,
                ZoneId.of(ZONES.get(zone % ZONES.size())),
                LocalTime.ofSecondOfDay(minute * 60L),
                unit == Unit.MONTHLY ? from : 1);
        assertTiles(calendar, time);
        ZoneOffsetTransition next = calendar.zone().getRules().nextTransition(Instant.ofEpochMilli(time));
        if (next != null) {
            for (long hours = -50; hours < 50; hours += 7) {
                assertTiles(
                        calendar,
                        next.getInstant().toEpochMilli()
                                + Duration.ofHours(hours).toMillis());
            }
        }
    }

    private static void assertTiles(QuotaCalendar calendar, long time) {
        Period period = calendar.periodAt(time);
        assertThat(period.contains(time)).as("%s has %s", period, time).isTrue();
        assertThat(calendar.periodAt(period.start())).isEqualTo(period);
        assertThat(calendar.periodAt(period.end() - 1)).isEqualTo(period);
        assertThat(calendar.periodAt(period.end()).start()).isEqualTo(period.end());
        assertThat(calendar.periodAt(period.start() - 1).end()).isEqualTo(period.start());
        // A day longer if a zone repeats one.
        assertThat(Duration.ofMillis(period.end() - period.start()))
                .isBetween(
                        Duration.ofHours(12L * calendar.unit().longestDays),
                        Duration.ofDays(calendar.unit().longestDays).plusDays(1));
    }
}
