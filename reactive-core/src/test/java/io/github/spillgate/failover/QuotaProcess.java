package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.postgres.SqlClock;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.redis.ScriptedClock;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.JavaProcess;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import java.time.zone.ZoneRulesProvider;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Another process, of which 64 callers take permits of a quota without end: of many keys, and of a hot one. */
final class QuotaProcess implements AutoCloseable {

    static final String HOT = "hot";

    /** A zone of which the processes have other data. */
    static final String CHANGED_ZONE = "Test/Changed";

    private static final int CALLERS = 64;
    private static final int KEYS = 40;

    /**
     * A grant.
     *
     * @param end the end of its period, in milliseconds of the store's clock
     * @param at the time of the decision, by the same clock
     */
    record Grant(String key, long end, long at, long permits) {}

    private final JavaProcess process;
    private final Queue<Grant> grants = new ConcurrentLinkedQueue<>();
    private final Thread reader;

    private QuotaProcess(JavaProcess process) {
        this.process = process;
        this.reader = new Thread(this::read, "grants");
        reader.setDaemon(true);
        reader.start();
    }

    /**
     * Starts a process, and returns when it has asked the store.
     *
     * @param uri of Redis, or of PostgreSQL
     * @param shift the key of Redis, or the table, with the time by which the clock of the store is ahead
     * @param isChanged whether the time-zone data moves the zone by an hour
     */
    static QuotaProcess start(String uri, String shift, String limit, boolean isChanged) throws IOException {
        return new QuotaProcess(JavaProcess.start(QuotaProcess.class, uri, shift, limit, isChanged)
                .awaitReady());
    }

    private void read() {
        try {
            for (String line = process.readLine(); line != null; line = process.readLine()) {
                String[] parts = line.split(" ", -1);
                grants.add(new Grant(
                        parts[0], Long.parseLong(parts[1]), Long.parseLong(parts[2]), Long.parseLong(parts[3])));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    List<Grant> grants() {
        return List.copyOf(grants);
    }

    /** Begins the traffic. */
    void begin() throws IOException {
        process.writeLine("begin");
    }

    /** Ends the traffic, and waits until all grants are read. */
    void end() throws IOException, InterruptedException {
        process.writeLine("end");
        reader.join();
    }

    @Override
    public void close() {
        process.close();
    }

    // In the other process.

    public static void main(String[] args) throws IOException {
        ZoneRulesProvider.registerProvider(new ChangedZone(Boolean.parseBoolean(args[3])));
        LimitStore store = args[0].startsWith("redis")
                ? ScriptedClock.shifted(RedisStore.uri(args[0]), args[1])
                : SqlClock.shifted(args[0], "counts_of_" + args[1], args[1]);
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .deadline(Duration.ofSeconds(5))
                .fallback(Fallback.deny())
                .limit(Limit.parse(args[2]))
                .build();
        limiter.peek(HOT).block();
        JavaProcess.reportReady();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        input.readLine();
        Disposable traffic = Flux.range(0, CALLERS)
                .flatMap(caller -> ask(limiter).repeat(), CALLERS)
                .subscribe();
        input.readLine();
        traffic.dispose();
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Mono<Decision> ask(RateLimiter limiter) {
        return Mono.defer(() -> {
                    ThreadLocalRandom random = ThreadLocalRandom.current();
                    String key = random.nextInt(4) == 0 ? HOT : "key-" + random.nextInt(KEYS);
                    return limiter.tryAcquire(Charge.of(key, 1 + random.nextInt(3)));
                })
                .doOnNext(QuotaProcess::print)
                // Denials are cached, and would need all of the processor.
                .delayUntil(decision -> decision.isAllowed() ? Mono.empty() : Mono.delay(Duration.ofMillis(5)));
    }

    private static void print(Decision decision) {
        if (decision.isAllowed()) {
            Decision.Usage usage = decision.limits().get(0);
            System.out.println(usage.key() + " " + usage.wholeAt().toEpochMilli() + " "
                    + decision.at().toEpochMilli() + " " + usage.cost());
        }
    }

    /** Time-zone data of a zone that is one hour ahead of UTC, and in the other version two, from a day on. */
    private static final class ChangedZone extends ZoneRulesProvider {

        private static final ZoneOffset BEFORE = ZoneOffset.ofHours(1);

        private final ZoneRules rules;

        ChangedZone(boolean isChanged) {
            List<ZoneOffsetTransition> change =
                    List.of(ZoneOffsetTransition.of(LocalDateTime.of(2026, 1, 1, 0, 0), BEFORE, ZoneOffset.ofHours(2)));
            rules = isChanged ? ZoneRules.of(BEFORE, BEFORE, change, change, List.of()) : ZoneRules.of(BEFORE);
        }

        @Override
        protected Set<String> provideZoneIds() {
            return Set.of(CHANGED_ZONE);
        }

        @Override
        protected ZoneRules provideRules(String zone, boolean isForCaching) {
            return rules;
        }

        @Override
        protected NavigableMap<String, ZoneRules> provideVersions(String zone) {
            return new TreeMap<>(Map.of("1", rules));
        }
    }
}
