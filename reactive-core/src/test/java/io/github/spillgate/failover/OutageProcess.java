package io.github.spillgate.failover;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Another process with one or more instances of a service, which limits its part of all {@link OutageTraffic}. */
final class OutageProcess implements AutoCloseable {

    private final Process process;
    private final BufferedReader output;

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

    private OutageProcess(Process process) {
        this.process = process;
        this.output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Starts instances {@code from} to {@code to}, exclusive, of {@code all}, and returns when they are ready. */
    static OutageProcess start(String uri, int from, int to, int all, Duration time) throws IOException {
        OutageProcess started = new OutageProcess(new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx256m",
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        System.getProperty("java.class.path"),
                        OutageProcess.class.getName(),
                        uri,
                        Integer.toString(from),
                        Integer.toString(to),
                        Integer.toString(all),
                        Long.toString(time.toMillis()))
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start());
        String first = started.output.readLine();
        if (!"ready".equals(first)) {
            started.close();
            throw new IOException("the other process said " + first + " instead of ready");
        }
        return started;
    }

    /** Starts the traffic at a time, in milliseconds since 1970. */
    void go(long at) throws IOException {
        process.getOutputStream().write((at + "\n").getBytes(StandardCharsets.UTF_8));
        process.getOutputStream().flush();
    }

    /** Waits until the traffic has ended. */
    List<Answer> answers() throws IOException {
        List<Answer> answers = new ArrayList<>();
        for (String line = output.readLine(); line != null; line = output.readLine()) {
            answers.add(Answer.parse(line));
        }
        return answers;
    }

    @Override
    public void close() throws IOException {
        process.destroyForcibly();
        output.close();
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
        System.out.println("ready");
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
