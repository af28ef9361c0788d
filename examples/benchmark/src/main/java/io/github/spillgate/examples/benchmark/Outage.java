package io.github.spillgate.examples.benchmark;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.examples.benchmark.report.StepChart;
import io.github.spillgate.examples.benchmark.report.StepChart.Mark;
import io.github.spillgate.examples.benchmark.report.StepChart.Row;
import io.github.spillgate.examples.benchmark.report.StepChart.Step;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Two instances of a service, of which Redis stalls for a while, with three limiters that decide on the same requests.
 * Draws how many requests of both instances were allowed within a window.
 */
final class Outage {

    private static final int PERMITS = 50;
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Limit LIMIT = Limit.of(PERMITS, WINDOW);

    /** The requests for each instance, in a second. */
    private static final int RATE = 12;

    private static final int LEAD_IN = 12;
    private static final Mark STALL = new Mark(10, 20, "Redis stalls for 10 s");
    private static final int SECONDS = 40;

    private final List<Contender> contenders = List.of(
            new Contender("Spillgate", true, UnaryOperator.identity()),
            new Contender("a limiter that fails open", false, limiter -> limiter.fallback(Fallback.allow())),
            new Contender("a limiter that fails", false, limiter -> limiter.fallback(Fallback.error())),
            new Contender("a limiter in each process", false, limiter -> limiter.store(LocalStore.bounded(100))));

    static void write(Path directory, PrintStream out) throws IOException {
        out.println("This takes about a minute.");
        try (RedisForTests redis = RedisForTests.startOwn()) {
            StepChart chart = new Outage().run(redis);
            Files.createDirectories(directory);
            Files.writeString(directory.resolve("outage.svg"), chart.movingSvg());
            out.println(chart.description());
        }
    }

    private StepChart run(RedisForTests redis) {
        contenders.forEach(contender -> contender.start(redis, 2));
        Flux<?> ready = Flux.fromIterable(contenders).flatMap(Contender::ready);
        ready.then().block();
        Instant start = InstantSource.system().instant().plusSeconds(LEAD_IN);
        Mono<?> requests = Flux.interval(Duration.ofSeconds(1).dividedBy(RATE))
                .take(Duration.ofSeconds(LEAD_IN + SECONDS))
                .doOnNext(turn -> contenders.forEach(contender -> contender.ask(start)))
                .then();
        Mono<?> stall = Mono.delay(Duration.ofSeconds(LEAD_IN + (long) STALL.from()))
                .doOnNext(now -> redis.pause())
                .delayElement(Duration.ofSeconds((long) (STALL.to() - STALL.from())))
                .doOnNext(now -> redis.resume());
        Mono.when(requests, stall).block();
        String most = contenders.stream()
                .map(contender -> contender.title + " " + contender.most() + ", with " + contender.errors + " errors")
                .collect(Collectors.joining("; "));
        StepChart chart = new StepChart(
                "Two instances, a limit of " + PERMITS + " requests in " + WINDOW.toSeconds() + " s, and an outage",
                "allowed in the last " + WINDOW.toSeconds() + " s, by both instances together",
                "The most requests allowed in " + WINDOW.toSeconds() + " s: " + most + ".",
                "",
                PERMITS,
                SECONDS,
                List.of(STALL),
                contenders.stream().map(Contender::row).toList());
        contenders.forEach(Contender::close);
        return chart;
    }

    /** A limiter of each instance. */
    private static final class Contender {

        private final String title;
        private final boolean ours;
        private final UnaryOperator<RateLimiterBuilder> settings;
        private final List<RateLimiter> instances = new ArrayList<>();
        private final List<RedisStore> stores = new ArrayList<>();

        private final AtomicInteger errors = new AtomicInteger();

        /** The times of the allowed requests by the clock of what decided, in seconds of the picture. */
        private final Queue<Double> allowed = new ConcurrentLinkedQueue<>();

        Contender(String title, boolean ours, UnaryOperator<RateLimiterBuilder> settings) {
            this.title = title;
            this.ours = ours;
            this.settings = settings;
        }

        void start(RedisForTests redis, int number) {
            String name = title.replace(' ', '-');
            for (int i = 0; i < number; i++) {
                RedisStore store = RedisStore.create(redis.uri());
                stores.add(store);
                instances.add(
                        settings.apply(RateLimiter.builder(name).store(store).limit(LIMIT))
                                .build());
            }
        }

        Mono<Void> ready() {
            return Flux.fromIterable(instances).flatMap(RateLimiter::ready).then();
        }

        /** Sends one request to each instance. */
        void ask(Instant start) {
            for (RateLimiter instance : instances) {
                instance.tryAcquire("client")
                        .filter(Decision::isAllowed)
                        .subscribe(
                                decision -> allowed.add(
                                        Duration.between(start, decision.at()).toMillis() / 1e3),
                                error -> errors.incrementAndGet());
            }
        }

        Row row() {
            return new Row(title, ours, "at most " + most() + ", " + errors + " errors", steps());
        }

        int most() {
            return steps().stream().mapToInt(Step::height).max().orElse(0);
        }

        private List<Step> steps() {
            TreeMap<Double, Integer> changes = new TreeMap<>();
            for (double at : allowed) {
                changes.merge(at, 1, Integer::sum);
                changes.merge(at + WINDOW.toSeconds(), -1, Integer::sum);
            }
            List<Step> steps = new ArrayList<>();
            int height = 0;
            for (Map.Entry<Double, Integer> change : changes.entrySet()) {
                height += change.getValue();
                if (change.getKey() >= 0 && change.getKey() < SECONDS) {
                    steps.add(new Step(change.getKey(), height));
                }
            }
            return steps;
        }

        void close() {
            instances.forEach(RateLimiter::close);
            stores.forEach(RedisStore::close);
        }
    }
}
