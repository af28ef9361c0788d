package io.github.spillgate.postgres;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.failover.StallMeter;
import io.github.spillgate.testkit.JavaProcess;
import io.r2dbc.spi.ConnectionFactories;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** Another process with a limiter on PostgreSQL, and traffic until it is told to end. */
final class PostgresProcess implements AutoCloseable {

    /** The limit of keys that begin with this has few permits, which return. */
    static final String TIGHT = "tight";

    /** The limit of keys that begin with this has a long value. */
    static final String LONG = "long";

    /** Stands for a key that was not used before. */
    static final String NEW = "new";

    private static final Limit TIGHT_LIMIT = Limit.of(100, Duration.ofSeconds(10));
    private static final Limit LONG_LIMIT = Limit.of(100_000, Duration.ofHours(5));

    /** No permit returns during a test. */
    private static final Limit WIDE_LIMIT = Limit.bucket(1_000, Duration.ofDays(366), 100_000);

    private static final String NAME = "api";
    private static final String END = "end";
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /**
     * A decision that a caller got.
     *
     * @param requestedAt by the clock of this machine, in milliseconds
     * @param waited in milliseconds
     * @param decidedAt by the clock of the store that decided, in milliseconds
     */
    record Answer(String key, boolean isAllowed, Source source, long requestedAt, long waited, long decidedAt) {

        private static Answer parse(String line) {
            String[] parts = line.split(" ", -1);
            return new Answer(
                    parts[0],
                    Boolean.parseBoolean(parts[1]),
                    Source.valueOf(parts[2]),
                    Long.parseLong(parts[3]),
                    Long.parseLong(parts[4]),
                    Long.parseLong(parts[5]));
        }

        @Override
        public String toString() {
            return key + " " + isAllowed + " " + source + " " + requestedAt + " " + waited + " " + decidedAt;
        }
    }

    private final JavaProcess process;
    private final Queue<Answer> answers = new ConcurrentLinkedQueue<>();
    private final AtomicInteger byPostgres = new AtomicInteger();
    private final Map<String, Queue<String>> messages = new ConcurrentHashMap<>();
    private final Thread reader;

    private PostgresProcess(JavaProcess process) {
        this.process = process;
        this.reader = new Thread(this::read, "answers");
        reader.setDaemon(true);
        reader.start();
    }

    /**
     * Starts a process.
     *
     * @param perSecond its decisions; 0 for {@link MixedTraffic}
     * @param keys the keys, each of which gets the same part of the decisions
     */
    static PostgresProcess start(
            String uri, String table, Duration deadline, int connections, int perSecond, List<String> keys)
            throws IOException {
        return new PostgresProcess(JavaProcess.start(
                PostgresProcess.class,
                uri,
                table,
                deadline.toMillis(),
                connections,
                perSecond,
                String.join(",", keys)));
    }

    static Limit limit(String key) {
        return key.startsWith(TIGHT) ? TIGHT_LIMIT : key.startsWith(LONG) ? LONG_LIMIT : WIDE_LIMIT;
    }

    private void read() {
        try {
            for (String line = process.readLine(); line != null; line = process.readLine()) {
                String[] parts = line.split(" ", 2);
                switch (parts[0]) {
                    case "answer" -> add(Answer.parse(parts[1]));
                    default -> messages(parts[0]).add(parts[1]);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void add(Answer answer) {
        answers.add(answer);
        if (answer.source() == Source.POSTGRES) {
            byPostgres.incrementAndGet();
        }
    }

    private Queue<String> messages(String kind) {
        return messages.computeIfAbsent(kind, none -> new ConcurrentLinkedQueue<>());
    }

    /** Returns how many decisions PostgreSQL has made so far. */
    int byPostgres() {
        return byPostgres.get();
    }

    List<Answer> answers() {
        return List.copyOf(answers);
    }

    /** Returns the errors that callers got. */
    List<String> errors() {
        return List.copyOf(messages("error"));
    }

    List<String> log() {
        return List.copyOf(messages("log"));
    }

    /** Returns the permits that may have been charged twice, after the process has ended. */
    long unknown() {
        return number("unknown");
    }

    /** Returns the longest time by which a timer of the process was late, in milliseconds. */
    long stalled() {
        return number("stalled");
    }

    /** Returns how many decisions of mixed traffic PostgreSQL has made. */
    long inPostgres() {
        return number("inPostgres");
    }

    /** Returns how many decisions of mixed traffic were made elsewhere. */
    long elsewhere() {
        return number("elsewhere");
    }

    private long number(String kind) {
        return messages(kind).stream().mapToLong(Long::parseLong).findAny().orElseThrow();
    }

    void signal(String signal) throws IOException, InterruptedException {
        new ProcessBuilder("/bin/sh", "-c", "kill -" + signal + " " + process.pid())
                .start()
                .waitFor();
    }

    /** Ends the traffic, and waits until all grants are charged and the process has ended. */
    void end() throws IOException, InterruptedException {
        process.writeLine(END);
        reader.join(2 * PATIENCE.toMillis());
        if (messages("toReconcile").isEmpty()) {
            throw new IllegalStateException("the other process did not end: " + messages);
        }
        if (number("toReconcile") != 0) {
            throw new IllegalStateException("grants were not charged: " + messages);
        }
    }

    @Override
    public void close() {
        process.close();
    }

    // In the other process.

    private static final BlockingQueue<String> OUTPUT = new LinkedBlockingQueue<>();

    public static void main(String[] args) throws IOException, InterruptedException {
        Thread printer = new Thread(PostgresProcess::print, "printer");
        printer.setDaemon(true);
        printer.start();
        System.setErr(new PrintStream(new LogLines(), true, StandardCharsets.UTF_8));
        PostgresStore store = PostgresStore.builder(ConnectionFactories.get(args[0]))
                .table(args[1])
                .connections(Integer.parseInt(args[3]))
                .build();
        RateLimiter limiter = RateLimiter.builder(NAME)
                .store(store)
                .deadline(Duration.ofMillis(Long.parseLong(args[2])))
                .build();
        limiter.ready().timeout(Duration.ofSeconds(2)).onErrorComplete().block();
        StallMeter stalls = StallMeter.start();
        Sinks.Empty<Void> stop = Sinks.empty();
        MixedTraffic mixed = new MixedTraffic(limiter);
        int perSecond = Integer.parseInt(args[4]);
        CompletableFuture<Void> traffic = (perSecond == 0
                        ? mixed.until(stop.asMono(), error -> OUTPUT.add("error " + error))
                        : steady(limiter, perSecond, args[5].split(","), stop.asMono()))
                .toFuture();
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
        stop.tryEmitEmpty();
        traffic.join();
        StoreState state = Mono.fromSupplier(limiter::state)
                .repeatWhen(times -> times.delayElements(Duration.ofMillis(50)))
                .takeUntil(now -> now.toReconcile() == 0)
                .takeUntilOther(Mono.delay(PATIENCE))
                .blockLast();
        OUTPUT.add("inPostgres " + mixed.inPostgres());
        OUTPUT.add("elsewhere " + mixed.elsewhere());
        OUTPUT.add("unknown " + state.unknown());
        OUTPUT.add("stalled " + stalls.longest().toMillis());
        OUTPUT.add("toReconcile " + state.toReconcile());
        OUTPUT.add(END);
        printer.join();
    }

    /** Requests decisions at a rate, but for no burst after this process was stopped. */
    private static Mono<Void> steady(RateLimiter limiter, int perSecond, String[] keys, Mono<Void> stop) {
        return Mono.delay(Duration.ofNanos(1_000_000_000L / perSecond))
                .repeat()
                .takeUntilOther(stop)
                .flatMap(
                        tick -> ask(limiter, keys[ThreadLocalRandom.current().nextInt(keys.length)]), Integer.MAX_VALUE)
                .then();
    }

    private static Mono<Void> ask(RateLimiter limiter, String name) {
        String key = name.equals(NEW) ? NEW + "-" + ThreadLocalRandom.current().nextLong(Long.MAX_VALUE) : name;
        long requestedAt = System.currentTimeMillis();
        long begun = System.nanoTime();
        return limiter.tryAcquire(Charge.of(key, limit(key)))
                .doOnNext(decision -> OUTPUT.add("answer " + answer(key, decision, requestedAt, begun)))
                .doOnError(error -> OUTPUT.add("error " + error))
                .onErrorComplete()
                .then();
    }

    private static Answer answer(String key, Decision decision, long requestedAt, long begun) {
        return new Answer(
                key,
                decision.isAllowed(),
                decision.source(),
                requestedAt,
                Duration.ofNanos(System.nanoTime() - begun).toMillis(),
                decision.at().toEpochMilli());
    }

    private static void print() {
        try {
            for (String line = OUTPUT.take(); !line.equals(END); line = OUTPUT.take()) {
                System.out.println(line);
            }
            System.out.flush();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Turns each line of the log into a message. */
    private static final class LogLines extends ByteArrayOutputStream {

        @Override
        public synchronized void flush() {
            String text = toString(StandardCharsets.UTF_8);
            int end = text.lastIndexOf('\n');
            if (end >= 0) {
                text.substring(0, end).lines().forEach(line -> OUTPUT.add("log " + line));
                String rest = text.substring(end + 1);
                reset();
                writeBytes(rest.getBytes(StandardCharsets.UTF_8));
            }
        }
    }
}
