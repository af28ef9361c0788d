package io.github.spillgate.examples.webflux;

import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.time.Duration;
import java.util.List;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Requests of which one limit allows exactly {@code admits}, if all are sent within one window and no permit was used
 * before.
 *
 * @param name its name in the report
 * @param limit the name of the limit
 * @param window the window of the limit
 * @param admits how many of these requests fit into one window
 * @param passes the status of an allowed request
 * @param asks the requests
 */
record Burst(String name, String limit, Duration window, int admits, int passes, List<Ask> asks) {

    /**
     * Returns all bursts as consecutive steps. The bursts of a step are sent concurrently. The expected numbers include
     * the permits that earlier steps take from the same key.
     */
    static List<List<Burst>> all() {
        return List.of(
                List.of(validations("one key", "paid-key", "192.0.2.1", 100, 1)),
                List.of(
                        validations("two keys at once: one", "free-key", "192.0.2.2", 60, 1),
                        validations("two keys at once: the other", "another-free-key", "192.0.2.3", 60, 1)),
                List.of(validations("four numbers a request", "another-paid-key", "192.0.2.4", 20, 4)),
                // 30 of 100 permits were taken by "two keys at once: one".
                List.of(day("the free plan's day", "free-key", "198.51.100.", 70, 150)),
                List.of(new Burst(
                        "one address, keys made up",
                        "address-1m",
                        Duration.ofMinutes(1),
                        120,
                        401,
                        asks(300, Ask::guess))));
    }

    /** Returns the longest burst: more requests than the paid plan allows in a day. */
    static Burst paidDay() {
        // 30 have been taken by "one key".
        return day("the paid plan's day", "paid-key", "203.0.113.", 9_970, 10_100);
    }

    private static Burst validations(String name, String apiKey, String address, int requests, int numbers) {
        String query = IntStream.range(0, numbers)
                .mapToObj(i -> "number=FI1234567" + i)
                .collect(Collectors.joining("&"));
        return new Burst(
                name,
                "validate-1m",
                Duration.ofMinutes(1),
                30 / numbers,
                200,
                asks(requests, i -> new Ask("POST", "/v1/validate?" + query, apiKey, address)));
    }

    /** Sends from enough addresses that the limit on addresses denies none. */
    private static Burst day(String name, String apiKey, String network, int left, int requests) {
        return new Burst(
                name,
                "plan-24h",
                Duration.ofDays(1),
                left,
                200,
                asks(requests, i -> new Ask("GET", "/v1/rates", apiKey, network + i / 100)));
    }

    private static List<Ask> asks(int requests, IntFunction<Ask> ask) {
        return IntStream.range(0, requests).mapToObj(ask).toList();
    }

    /**
     * One request.
     *
     * @param method the method
     * @param path the path, with its query
     * @param apiKey the API key that it sends
     * @param forwardedFor the value of {@code X-Forwarded-For}
     */
    record Ask(String method, String path, String apiKey, String forwardedFor) {

        /** A request with an invented key and an invented address, to the left of the one that the proxy appends. */
        private static Ask guess(int i) {
            return new Ask("GET", "/v1/rates", "guess-" + i, "198.18.0." + i % 256 + ", 192.0.2.66");
        }

        HttpRequest to(URI instance) {
            return HttpRequest.newBuilder(instance.resolve(path))
                    .method(method, BodyPublishers.noBody())
                    .header("X-Api-Key", apiKey)
                    .header("X-Forwarded-For", forwardedFor)
                    .timeout(Duration.ofSeconds(30))
                    .build();
        }
    }
}
