package io.github.spillgate.failover;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.JavaProcess;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Another process with one or more instances of a service, which limits its part of all {@link OutageTraffic}. */
final class OutageProcess implements AutoCloseable {

    private final JavaProcess process;

    /** A decision of one of the instances. */
    record Answer(String limiter, int key, boolean isAllowed, Source source, long at) {

        static Answer parse(String line) {
            String[] parts = line.split(" ", -1);
            return new Answer(
                    parts[0],
                    Integer.parseInt(parts[1]),
                    Boolean.parseBoolean(parts[2]),
                    Source.valueOf(parts[3]),
                    Long.parseLong(parts[4]));
        }

        @Override
        public String toString() {
            return limiter + " " + key + " " + isAllowed + " " + source + " " + at;
        }
    }

    private OutageProcess(JavaProcess process) {
        this.process = process;
    }

    /** Starts instances {@code from} to {@code to}, exclusive, of {@code all}, and returns when they are ready. */
    static OutageProcess start(String uri, int from, int to, int all, Duration time) throws IOException {
        return new OutageProcess(JavaProcess.start(OutageProcess.class, uri, from, to, all, time.toMillis())
                .awaitReady());
    }

    /** Starts the traffic at a time, in milliseconds since 1970. */
    void go(long at) throws IOException {
        process.writeLine(Long.toString(at));
    }

    /** Waits until the traffic has ended. */
    List<Answer> answers() throws IOException {
        List<Answer> answers = new ArrayList<>();
        for (String line = process.readLine(); line != null; line = process.readLine()) {
            answers.add(Answer.parse(line));
        }
        return answers;
    }

    @Override
    public void close() {
        process.close();
    }

    public static void main(String[] args) throws IOException {
        int from = Integer.parseInt(args[1]);
        int to = Integer.parseInt(args[2]);
        int all = Integer.parseInt(args[3]);
        long millis = Long.parseLong(args[4]);
        Queue<Answer> answers = new ConcurrentLinkedQueue<>();
        List<RateLimiter> limiters = new ArrayList<>();
        List<Mono<Void>> traffics = new ArrayList<>();
        List<Long> start = new ArrayList<>();
        for (int instance = from; instance < to; instance++) {
            RedisStore store = RedisStore.create(RedisStore.uri(args[0]));
            for (OutageTraffic traffic : OutageTraffic.all()) {
                RateLimiter limiter = RateLimiter.builder(traffic.limiter())
                        .store(store)
                        .limit(OutageTraffic.LIMIT)
                        .build();
                int me = instance;
                limiters.add(limiter);
                traffics.add(Flux.fromIterable(traffic.requests(all, millis))
                        .filter(request -> request.instance() == me)
                        .concatMap(request -> Mono.delay(Duration.ofMillis(
                                        Math.max(0, start.get(0) + request.at() - System.currentTimeMillis())))
                                .thenReturn(request))
                        .flatMap(
                                request -> limiter.tryAcquire("key-" + request.key())
                                        .doOnNext(decision -> answers.add(answer(traffic, request, decision))),
                                Integer.MAX_VALUE)
                        .then());
            }
        }
        Flux.fromIterable(limiters)
                .flatMap(limiter -> limiter.ready(), Integer.MAX_VALUE)
                .then()
                .block();
        JavaProcess.reportReady();
        start.add(Long.parseLong(
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine()));
        Mono.when(traffics).block();
        answers.forEach(System.out::println);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Answer answer(OutageTraffic traffic, OutageTraffic.Request request, Decision decision) {
        return new Answer(
                traffic.limiter(),
                request.key(),
                decision.isAllowed(),
                decision.source(),
                decision.at().toEpochMilli());
    }
}
