package io.github.spillgate.http.client;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.Thorough;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RetryFieldsTest {

    /** Ten seconds before the date of the examples in RFC 9110, section 5.6.7. */
    private static final Instant NOW = Instant.parse("1994-11-06T08:49:27Z");

    private static final Instant TODAY = Instant.parse("2026-06-01T12:00:00Z");
    private static final Duration CAP = Duration.ofMinutes(10);
    private static final Duration DEFAULT = Duration.ofSeconds(1);

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "Retry-After: 120                                                                | 120",
                "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT                                      | 10",
                "Retry-After: Sunday, 06-Nov-94 08:49:37 GMT                                     | 10",
                "Retry-After: Sun Nov  6 08:49:37 1994                                           | 10",
                "Retry-After: Sun, 06 Nov 1994 08:49:60 GMT                                      | 32",
                "Retry-After: 1.5                                                                | 2",
                "Retry-After: 5 // Retry-After: 7 // Retry-After: 6                              | 7",
                "Retry-After: 5 // RateLimit: \"default\";r=0;t=30                               | 5",
                "Retry-After: soon // RateLimit: \"default\";r=0;t=30                            | 30",
                "RateLimit: \"default\";r=0;t=30                                                 | 30",
                "RateLimit: \"default\" ; r=0 ; t=30                                             | 30",
                "RateLimit: default;r=0;t=30                                                     | 30",
                "RateLimit: \"protected\";r=0;t=30;pk=:cHJvdmlkZXI=:                             | 30",
                "RateLimit: \"a,b;r=0;t=99\";r=0;t=30                                            | 30",
                "RateLimit: \"quo\\\"te;\";r=0;t=30                                              | 30",
                "RateLimit: \"burst\";r=0;t=4, \"daily\";r=0;t=300, \"hourly\";r=7;t=500         | 300",
                "RateLimit: \"burst\";r=0;t=4 // RateLimit: \"daily\";r=3;t=500                  | 4",
                "RateLimit: \"burst\";r=0;t=4 // RateLimit: \"daily\";r=0;t=300                  | 300",
                "RateLimit: limit=100, remaining=0, reset=30                                     | 30",
                "RateLimit: limit=100 // RateLimit: remaining=0 // RateLimit: reset=30           | 30",
                "RateLimit: limit=100,remaining=0,reset=30                                       | 30",
                "RateLimit-Limit: 100 // RateLimit-Remaining: 0 // RateLimit-Reset: 30           | 30",
                "RateLimit-Reset: 30                                                             | 30",
                "X-RateLimit-Reset: 30                                                           | 30",
                "X-RateLimit-Remaining: 0 // X-RateLimit-Reset: 784111777                        | 600",
                "x-rate-limit-remaining: 0 // x-rate-limit-reset: 30                             | 30",
                "RateLimit: \"default\";r=0;t=30 // X-RateLimit-Reset: 99                        | 30",
            })
    void aRefusalSaysHowLongToPause(String fields, long seconds) {
        assertThat(pause(429, NOW, fields))
                .contains(Duration.ofSeconds(seconds).compareTo(CAP) > 0 ? CAP : Duration.ofSeconds(seconds));
        assertThat(pause(503, NOW, fields)).isEqualTo(pause(429, NOW, fields));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "X-RateLimit-Reset: 1780315230           | 30000",
                "X-RateLimit-Reset: 1780315230500        | 30500",
                "X-RateLimit-Reset: 1780315200           | 1000",
                "X-RateLimit-Reset: 1780315199           | 1000",
                "X-RateLimit-Reset: 1880315199           | 600000",
                "Retry-After: 1780315230                 | 30000",
                "Retry-After: Monday, 01-Jun-26 12:00:30 GMT | 30000",
                "Retry-After: Sunday, 06-Nov-94 08:49:37 GMT | 1000",
            })
    void bothMeaningsOfAResetAreUnderstood(String field, long millis) {
        assertThat(pause(429, TODAY, field)).contains(Duration.ofMillis(millis));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "Retry-After: ",
                "Retry-After: -5",
                "Retry-After: 0",
                "Retry-After: NaN",
                "Retry-After: 1e3",
                "Retry-After: 0x10",
                "Retry-After: ٣",
                "Retry-After: Sun, 06 Nov 1894 08:49:37 GMT",
                "Retry-After: Sun, 36 Nov 1994 08:49:37 GMT",
                "Retry-After: Sun, 06 Nox 1994 08:49:37 GMT",
                "Retry-After: Sun, 06 ovD 1994 08:49:37 GMT",
                "Retry-After: Sun, 06 Nov 1994 08:49:37 CET",
                "Retry-After: Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
                "Retry-After: 99999999999999999999999",
                "RateLimit: \"default\";r=0",
                "RateLimit: \"default\";r=5;t=30",
                "RateLimit: \"default\";r=-1;t=30",
                "RateLimit: \"default\";r=;t=30",
                "RateLimit: \"unclosed;r=0;t=30",
                "RateLimit: limit=100, remaining=1, reset=30",
                "RateLimit: limit=100, reset=30",
                "RateLimit-Remaining: 3 // RateLimit-Reset: 30",
                "X-RateLimit-Remaining: 3 // X-RateLimit-Reset: 30",
                "X-RateLimit-Reset: tomorrow",
                "Other: 30",
            })
    void unusableFieldsPauseForASecondAfterA429AndNotAtAllAfterA503(String fields) {
        assertThat(pause(429, NOW, fields)).contains(DEFAULT);
        assertThat(pause(503, NOW, fields)).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {100, 200, 204, 301, 400, 403, 500, 502, 504})
    void otherResponsesRequireNoPause(int status) {
        assertThat(pause(status, NOW, "Retry-After: 5 // RateLimit: \"default\";r=0;t=30"))
                .isEmpty();
    }

    @Test
    void noPauseIsLongerThanTheLongest() {
        assertThat(pause(429, NOW, "Retry-After: 601")).contains(CAP);
        assertThat(pause(429, NOW, "Retry-After: Sun, 06 Nov 999999999 08:49:37 GMT"))
                .contains(CAP);
        assertThat(RetryFields.pause(429, name -> List.of(), NOW, Duration.ofMillis(50)))
                .contains(Duration.ofMillis(50));
    }

    @Test
    void noInputThrowsOrPausesTooLong() {
        fuzz(50_000);
    }

    @Thorough
    @Test
    void noneOfAMillionInputsThrowsOrPausesTooLong() {
        fuzz(1_000_000);
    }

    /** Valid values in which some characters are replaced, removed or repeated. */
    private static void fuzz(int inputs) {
        String[] names = {
            "Retry-After",
            "RateLimit",
            "RateLimit-Reset",
            "X-RateLimit-Reset",
            "X-RateLimit-Remaining",
            "X-Rate-Limit-Reset",
        };
        String[] values = {
            "120",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "\"default\";r=0;t=30",
            "\"burst\";r=0;t=4, \"daily\";r=0;t=300",
            "limit=100, remaining=0, reset=30",
            "1780315230",
            "1780315230500",
            "0",
            "1.5",
            "",
        };
        String characters = "0123456789 ,;:-=.\"\\rtGMTSunov\t\0\u00e9\ud800";
        Random random = new Random(17);
        for (int i = 0; i < inputs; i++) {
            Map<String, List<String>> fields = new HashMap<>();
            for (int field = 0; field < 2; field++) {
                StringBuilder value = new StringBuilder(values[random.nextInt(values.length)]);
                for (int change = random.nextInt(6); change > 0; change--) {
                    int at = random.nextInt(value.length() + 1);
                    value.insert(at, characters.charAt(random.nextInt(characters.length())));
                    if (random.nextBoolean()) {
                        int from = random.nextInt(value.length());
                        value.delete(from, Math.min(value.length(), from + 1 + random.nextInt(3)));
                    }
                }
                fields.put(names[random.nextInt(names.length)], List.of(value.toString()));
            }
            Instant now = random.nextInt(1_000) == 0 ? Instant.MAX : TODAY;
            Optional<Duration> pause = RetryFields.pause(429, name -> fields.getOrDefault(name, List.of()), now, CAP);
            assertThat(pause.isPresent()
                            && pause.get().compareTo(Duration.ZERO) > 0
                            && pause.get().compareTo(CAP) <= 0)
                    .as("%s: %s", fields, pause)
                    .isTrue();
        }
    }

    private static Optional<Duration> pause(int status, Instant now, String fields) {
        return RetryFields.pause(
                status,
                name -> Arrays.stream(fields.split(" // ", -1))
                        .map(field -> field.split(": ?", 2))
                        .filter(field -> field[0].equalsIgnoreCase(name))
                        .map(field -> field[1].stripTrailing())
                        .toList(),
                now,
                CAP);
    }
}
