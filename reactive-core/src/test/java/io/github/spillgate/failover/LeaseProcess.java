package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.redis.ScriptedClock;
import io.github.spillgate.testkit.JavaProcess;
import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Another process with several instances, some of which lease, that take permits of one key without end. */
final class LeaseProcess implements AutoCloseable {

    /**
     * A grant that was not refunded.
     *
     * @param at the time of the decision, by the store's clock
     * @param from when it was requested, by the clock of this machine
     * @param to when it was received, or later
     */
    record Grant(long at, long permits, boolean isLeased, long from, long to) {}

    private final JavaProcess process;
    private final Queue<Grant> grants = new ConcurrentLinkedQueue<>();
    private final Thread reader;

    private LeaseProcess(JavaProcess process) {
        this.process = process;
        this.reader = new Thread(this::read, "grants");
        reader.setDaemon(true);
        reader.start();
    }

    /**
     * Starts a process.
     *
     * @param shift the key of Redis with the milliseconds by which the clock of the store is ahead; empty if it is not
     */
    static LeaseProcess start(String uri, Limit limit, int leasing, int others, String shift) throws IOException {
        return new LeaseProcess(JavaProcess.start(LeaseProcess.class, uri, limit, leasing, others, shift));
    }

    private void read() {
        try {
            for (String line = process.readLine(); line != null; line = process.readLine()) {
                String[] parts = line.split(" ", -1);
                // The last line of a killed process may be torn.
                if (parts.length == 6 && parts[5].equals(".")) {
                    grants.add(new Grant(
                            Long.parseLong(parts[0]),
                            Long.parseLong(parts[1]),
                            Boolean.parseBoolean(parts[2]),
                            Long.parseLong(parts[3]),
                            Long.parseLong(parts[4])));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the grants so far. */
    List<Grant> grants() {
        return List.copyOf(grants);
    }

    void signal(String signal) throws IOException, InterruptedException {
        new ProcessBuilder("/bin/sh", "-c", "kill -" + signal + " " + process.pid())
                .start()
                .waitFor();
    }

    /** Kills the process, and waits until all its output is read. */
    @Override
    public void close() throws IOException {
        process.close();
        try {
            reader.join();
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
    }

    public static void main(String[] args) {
        Limit limit = Limit.parse(args[1]);
        int leasing = Integer.parseInt(args[2]);
        int all = leasing + Integer.parseInt(args[3]);
        List<Flux<Answer>> traffic = new ArrayList<>();
        for (int i = 0; i < all; i++) {
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(store(RedisStore.uri(args[0]), args[4]))
                    .fallback(Fallback.deny())
                    .limit(i < leasing ? limit.leased() : limit)
                    .build();
            traffic.add(traffic(limiter));
        }
        Flux.merge(traffic).doOnNext(LeaseProcess::print).blockLast();
    }

    private static RedisStore store(RedisURI uri, String shift) {
        return shift.isEmpty() ? RedisStore.create(uri) : ScriptedClock.shifted(uri, shift);
    }

    private static void print(Answer answer) {
        Decision decision = answer.decision;
        System.out.println(
                decision.at().toEpochMilli() + " " + decision.limits().get(0).cost() + " "
                        + decision.source().name().equals("LEASE") + " " + answer.from + " " + answer.to + " .");
    }

    /** Sometimes many requests, sometimes few, and pauses of some lease times. Some grants are refunded. */
    private static Flux<Answer> traffic(RateLimiter limiter) {
        Random random = new Random();
        return Flux.<Integer>generate(sink -> sink.next(1 + random.nextInt(3)))
                .concatMap(cost -> random.nextInt(40) == 0
                        ? Mono.delay(Duration.ofMillis(random.nextInt(60))).thenReturn(cost)
                        : Mono.just(cost))
                .flatMap(cost -> ask(limiter, cost), 16)
                .filter(answer -> answer.decision.isAllowed())
                .filterWhen(answer -> random.nextInt(10) == 0
                        ? limiter.refund(answer.decision).onErrorComplete().thenReturn(false)
                        : Mono.just(true));
    }

    private static Mono<Answer> ask(RateLimiter limiter, int cost) {
        return Mono.defer(() -> {
            long from = System.currentTimeMillis();
            return limiter.tryAcquire(Charge.of("key", cost))
                    .map(decision -> new Answer(decision, from, System.currentTimeMillis() + 1));
        });
    }

    private record Answer(Decision decision, long from, long to) {}
}
