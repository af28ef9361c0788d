package io.github.spillgate.examples.webflux;

import java.net.http.HttpHeaders;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The result of a burst.
 *
 * @param burst the burst
 * @param answers the response to each request
 * @param took the time from the first request to the last response
 */
record Outcome(Burst burst, List<Answer> answers, Duration took) {

    static final String TABLE = """
            | burst | sent | the limit says | allowed | denied | p50 | p99 |
            |---|---|---|---|---|---|---|
            """;

    long allowed() {
        return answers.stream()
                .filter(answer -> answer.status() == burst.passes())
                .count();
    }

    long denied() {
        return answers.stream().filter(answer -> answer.status() == 429).count();
    }

    /**
     * Returns what is wrong, or empty. Within one window, exactly {@code admits} requests must be allowed. In a longer
     * burst, permits become available again: then at most that number for each window begun.
     */
    Optional<String> wrong() {
        List<String> odd =
                answers.stream().flatMap(answer -> answer.odd(burst)).distinct().toList();
        if (!odd.isEmpty()) {
            return Optional.of(burst.name() + ": " + String.join("; ", odd));
        }
        long windows = 1 + took.dividedBy(burst.window());
        if (allowed() < burst.admits() || allowed() > burst.admits() * windows) {
            return Optional.of(burst.name() + ": " + burst.limit() + " allows " + burst.admits() + " within "
                    + burst.window() + ", and " + allowed() + " were allowed within " + took);
        }
        return Optional.empty();
    }

    String row() {
        return String.format(
                Locale.ROOT,
                "| %s | %d | %d | %d | %d | %.1f ms | %.1f ms |%n",
                burst.name(),
                answers.size(),
                burst.admits(),
                allowed(),
                denied(),
                millis(0.5),
                millis(0.99));
    }

    private double millis(double quantile) {
        long[] sorted = answers.stream()
                .mapToLong(answer -> answer.took().toNanos())
                .sorted()
                .toArray();
        return sorted[(int) Math.ceil(quantile * sorted.length) - 1] / 1e6;
    }

    /**
     * A response.
     *
     * @param status the status
     * @param headers the header fields
     * @param body the body
     * @param took the response time
     */
    record Answer(int status, HttpHeaders headers, String body, Duration took) {

        private static final List<String> ALWAYS = List.of(
                "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset");

        static Answer of(HttpResponse<String> response, Duration took) {
            return new Answer(response.statusCode(), response.headers(), response.body(), took);
        }

        private Stream<String> odd(Burst burst) {
            boolean isDenied = status == 429;
            if (!isDenied && status != burst.passes()) {
                return Stream.of("status " + status + ", expected " + burst.passes() + " or 429");
            }
            Stream<String> missing = Stream.concat(ALWAYS.stream(), isDenied ? Stream.of("Retry-After") : Stream.of())
                    .filter(name -> headers.firstValue(name).isEmpty())
                    .map(name -> status + " without " + name);
            return isDenied && !body.contains("\"violated-policies\":[\"" + burst.limit() + "\"]")
                    ? Stream.concat(missing, Stream.of("denied not by " + burst.limit() + " alone"))
                    : missing;
        }
    }
}
