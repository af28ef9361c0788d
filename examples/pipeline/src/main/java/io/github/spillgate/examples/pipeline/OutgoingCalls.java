package io.github.spillgate.examples.pipeline;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.http.client.ResponseAccess;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import java.io.File;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.retry.Retry;

/**
 * Two processes call a partner whose limit they do not know exactly: they send up to 15 requests a second, and it
 * accepts 10. If one of them is refused, both pause.
 */
public final class OutgoingCalls {

    private static final int REQUESTS = 40;

    private OutgoingCalls() {}

    /** Starts the partner and two processes; with arguments, is one of these. */
    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            call(args[0], args[1], URI.create(args[2]));
            return;
        }
        try (ExampleRedis redis = ExampleRedis.open();
                MoodyPartner partner = new MoodyPartner()) {
            List<Process> processes = List.of(start("A", redis, partner), start("B", redis, partner));
            partner.awaitAccepted(25);
            System.out.println("partner    restarts");
            partner.restart();
            partner.awaitAccepted(50);
            System.out.println("partner    stalls");
            partner.stall();
            for (Process process : processes) {
                process.waitFor();
            }
            System.out.printf("%n%d requests: %s.%n", 2 * REQUESTS, partner.report());
        }
    }

    private static Process start(String instance, ExampleRedis redis, MoodyPartner partner) throws Exception {
        return new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                        "-cp",
                        classPath(),
                        OutgoingCalls.class.getName(),
                        instance,
                        redis.uri(),
                        partner.uri().toString())
                .inheritIO()
                .start();
    }

    /** Maven runs a program in its own process, with a class loader. */
    private static String classPath() {
        return OutgoingCalls.class.getClassLoader() instanceof URLClassLoader loader
                ? Stream.of(loader.getURLs()).map(URL::getPath).collect(Collectors.joining(File.pathSeparator))
                : System.getProperty("java.class.path");
    }

    /** One instance: all of its requests wait in one queue. */
    private static void call(String instance, String redis, URI partner) {
        RedisClient client = RedisClient.create(redis);
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(RedisStore.create(client))
                .limit(Limit.parse("15/s burst=1"))
                .limit(Limit.pausable())
                .build();
        OutgoingRequests requests = OutgoingRequests.builder(limiter)
                .longestWait(Duration.ofMinutes(1))
                .build();
        limiter.ready().block(Duration.ofSeconds(10));
        HttpClient http = HttpClient.newHttpClient();
        HttpRequest get =
                HttpRequest.newBuilder(partner).timeout(Duration.ofSeconds(5)).build();
        Mono<HttpResponse<Void>> request = Mono.fromFuture(() -> http.sendAsync(get, BodyHandlers.discarding()))
                .subscribeOn(Schedulers.boundedElastic());
        long start = System.nanoTime();
        Flux.range(1, REQUESTS)
                .flatMap(
                        number -> requests.send(partner.getAuthority(), true, request, new Discarded())
                                // A connection breaks when the partner restarts.
                                .retryWhen(Retry.backoff(5, Duration.ofMillis(50)))
                                .map(response -> number + " gets status " + response.statusCode()),
                        REQUESTS)
                .doOnNext(text -> System.out.printf(
                        Locale.ROOT,
                        "instance %s %6.3f s  request %s%n",
                        instance,
                        (System.nanoTime() - start) / 1e9,
                        text))
                .blockLast(Duration.ofMinutes(2));
        System.out.printf("instance %s was refused %d times%n", instance, requests.pauses());
        limiter.closeLater().block();
        client.shutdown();
        System.exit(0);
    }

    /** The client of the JDK has discarded the body when it returns the response. */
    private record Discarded() implements ResponseAccess<HttpResponse<Void>> {

        @Override
        public int status(HttpResponse<Void> response) {
            return response.statusCode();
        }

        @Override
        public List<String> values(HttpResponse<Void> response, String field) {
            return response.headers().allValues(field);
        }

        @Override
        public Mono<Void> release(HttpResponse<Void> response) {
            return Mono.empty();
        }

        @Override
        public HttpResponse<Void> whileHolding(
                HttpResponse<Void> response, Mono<HttpResponse<Void>> lost, Runnable ended) {
            ended.run();
            return response;
        }
    }
}
