package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.LeaseProcess.Grant;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Mono;

/**
 * Instances in two processes lease from one log or token bucket, or do not, while the processes and Redis stop and go
 * on, or are killed, and while the clock of Redis is set. No window has more than the limit.
 */
class LeaseProcessesTest {

    private static final String SHIFT = "shift";

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<LeaseProcess> processes = new ArrayList<>();
    private final List<Long> restarts = new ArrayList<>();
    private final List<Step> steps = new ArrayList<>();
    private final Random random = new Random();
    private String shift = "";

    /** What happens to a process or to Redis. */
    private enum Event {
        STOP_PROCESS,
        STOP_REDIS,
        KILL_PROCESS,
        KILL_REDIS,
        SET_CLOCK
    }

    /**
     * The clock of Redis is set.
     *
     * @param from before that
     * @param to after that
     */
    private record Step(long from, long to, long millis) {}

    /** Permits that are granted in an interval of time. */
    private record Granted(long from, long to, long permits) {}

    @AfterEach
    void close() throws IOException {
        for (LeaseProcess process : processes) {
            process.close();
        }
        redis.close();
    }

    @ParameterizedTest
    @CsvSource({"2, 0, 3000/2s", "4, 4, 5000/2s", "2, 1, 2000/1s burst=400"})
    @Thorough
    void noWindowHasMoreThanTheLimit(int leasing, int others, String limit) throws Exception {
        run(leasing, others, Limit.parse(limit), withoutSteps(1));
        assertThat(mostByTheStore(Limit.parse(limit)))
                .isLessThanOrEqualTo(Limit.parse(limit).capacity());
    }

    @ParameterizedTest
    @CsvSource({
        "1, 0, 200/1s",
        "2, 2, 3000/1s",
        "8, 0, 5000/2s resolution=7ms",
        "4, 4, 20000/10s",
        "8, 0, 60000/1m",
        "2, 2, 3000/1s burst=600",
        "8, 0, 60000/1m burst=3000",
        "4, 4, 2000/1s burst=2000",
    })
    @Proof
    void noWindowHasMoreThanTheLimitInALongRun(int leasing, int others, String limit) throws Exception {
        run(leasing, others, Limit.parse(limit), withoutSteps(8));
        assertThat(mostByTheStore(Limit.parse(limit)))
                .isLessThanOrEqualTo(Limit.parse(limit).capacity());
    }

    @ParameterizedTest
    @CsvSource({"2, 1, 3000/1s", "2, 1, 2000/1s burst=400"})
    @Thorough
    void noWindowHasMoreThanTheLimitWhileTheClockIsSet(int leasing, int others, String limit) throws Exception {
        run(leasing, others, Limit.parse(limit), withSteps(1));
        assertWithinByThisMachine(Limit.parse(limit));
    }

    @ParameterizedTest
    @CsvSource({
        "1, 0, 200/1s",
        "4, 4, 3000/1s",
        "8, 0, 5000/2s resolution=7ms",
        "4, 4, 20000/10s",
        "2, 2, 3000/1s burst=600",
        "4, 4, 2000/1s burst=2000",
    })
    @Proof
    void noWindowHasMoreThanTheLimitWhileTheClockIsSetInALongRun(int leasing, int others, String limit)
            throws Exception {
        run(leasing, others, Limit.parse(limit), withSteps(8));
        assertWithinByThisMachine(Limit.parse(limit));
    }

    private List<Event> withoutSteps(int times) {
        return shuffled(
                times, Event.STOP_PROCESS, Event.STOP_PROCESS, Event.STOP_REDIS, Event.KILL_PROCESS, Event.KILL_REDIS);
    }

    /** Redis is not killed: it loses its data, and the times of grants do not tell which of them were before that. */
    private List<Event> withSteps(int times) {
        return shuffled(
                times,
                Event.STOP_PROCESS,
                Event.STOP_REDIS,
                Event.KILL_PROCESS,
                Event.SET_CLOCK,
                Event.SET_CLOCK,
                Event.SET_CLOCK);
    }

    private List<Event> shuffled(int times, Event... some) {
        List<Event> events = new ArrayList<>();
        for (int i = 0; i < times; i++) {
            events.addAll(List.of(some));
        }
        Collections.shuffle(events, random);
        return events;
    }

    private void run(int leasing, int others, Limit limit, List<Event> events) throws Exception {
        shift = events.contains(Event.SET_CLOCK) ? SHIFT : "";
        for (int i = 0; i < 2; i++) {
            processes.add(start(leasing, others, limit));
        }
        List<LeaseProcess> running = new ArrayList<>(processes);
        awaitLeases(50);
        for (Event event : events) {
            int chosen = random.nextInt(running.size());
            switch (event) {
                case STOP_PROCESS -> {
                    running.get(chosen).signal("STOP");
                    pause(400);
                    running.get(chosen).signal("CONT");
                }
                case STOP_REDIS -> {
                    redis.pause();
                    pause(400);
                    redis.resume();
                }
                case KILL_PROCESS -> {
                    running.remove(chosen).close();
                    LeaseProcess other = start(leasing, others, limit);
                    processes.add(other);
                    running.add(other);
                }
                case KILL_REDIS -> {
                    redis.kill();
                    // Longer than permits of the old one may be spent.
                    Mono.delay(limit.leaseTime().multipliedBy(3)).block();
                    restarts.add(System.currentTimeMillis());
                    redis.restart();
                }
                case SET_CLOCK -> setClock();
            }
            pause(600);
        }
        awaitLeases(20);
        for (LeaseProcess process : processes) {
            process.close();
        }
    }

    private LeaseProcess start(int leasing, int others, Limit limit) throws IOException {
        return LeaseProcess.start(redis.uri().toURI().toString(), limit, leasing, others, shift);
    }

    private void setClock() {
        long[] some = {-1, -7, -40, -150, -700, -3_000, -60_000, 5, 90, 600, 5_000};
        long millis = some[random.nextInt(some.length)];
        RedisClient client = RedisClient.create(redis.uri());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            long from = System.currentTimeMillis();
            connection.sync().incrby(SHIFT, millis);
            steps.add(new Step(from, System.currentTimeMillis() + 1, millis));
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }

    /** Stalls have a duration, so this has one too. */
    private void pause(int most) {
        Mono.delay(Duration.ofMillis(1 + random.nextInt(most))).block();
    }

    private void awaitLeases(int more) {
        long before = leased();
        await().atMost(Duration.ofMinutes(1)).until(() -> leased() > before + more);
    }

    private long leased() {
        return processes.stream()
                .flatMap(process -> process.grants().stream())
                .filter(Grant::isLeased)
                .count();
    }

    private List<Grant> grants() {
        return processes.stream().flatMap(process -> process.grants().stream()).toList();
    }

    /** Returns the most permits in a window, or in a bucket, by the times of the decisions, of any of the servers. */
    private long mostByTheStore(Limit limit) {
        List<Long> ends = new ArrayList<>(restarts);
        ends.add(Long.MAX_VALUE);
        long begin = 0;
        long most = 0;
        for (long end : ends) {
            long from = begin;
            List<Grant> some = grants().stream()
                    .filter(grant -> grant.at() >= from && grant.at() < end)
                    .sorted(Comparator.comparingLong(Grant::at))
                    .toList();
            GrantedPermits all = new GrantedPermits(limit);
            some.forEach(grant -> all.take(grant.at(), grant.permits()));
            most = Math.max(most, all.most());
            begin = end;
        }
        assertThat(most).isPositive();
        return most;
    }

    // By the clock of this machine. The time of a grant is known only in part.

    /**
     * Asserts that no window has more than the limit, of grants that are certainly within it. If the clock of Redis is
     * set forward, that is as if the time had passed.
     */
    private void assertWithinByThisMachine(Limit limit) {
        long lease = limit.leaseTime().toMillis();
        List<Granted> granted = grants().stream()
                .map(grant -> new Granted(
                        grant.from() + forward(step -> step.to + lease <= grant.from()),
                        grant.to() + forward(step -> step.from <= grant.to()),
                        grant.permits()))
                .sorted(Comparator.comparingLong(Granted::to))
                .toList();
        assertThat(granted).isNotEmpty();
        if (limit instanceof Limit.Bucket) {
            assertWithinTheBucket(limit, granted);
            return;
        }
        TreeMap<Long, Long> window = new TreeMap<>();
        long permits = 0;
        for (Granted one : granted) {
            permits += one.permits;
            window.merge(one.from, one.permits, Long::sum);
            while (!window.isEmpty()
                    && window.firstKey() <= one.to - limit.window().toMillis()) {
                permits -= window.pollFirstEntry().getValue();
            }
            assertThat(permits).isLessThanOrEqualTo(limit.permits());
        }
    }

    /** Asserts that no interval has more than the burst and what returns in it. All intervals are tried. */
    private static void assertWithinTheBucket(Limit limit, List<Granted> granted) {
        double perMilli = (double) limit.permits() / limit.window().toMillis();
        List<Granted> latestFirst = new ArrayList<>(granted);
        latestFirst.sort(Comparator.comparingLong(Granted::from).reversed());
        long first = granted.get(0).to;
        int length = (int) (granted.get(granted.size() - 1).to - first + 1);
        // By the end of an interval; all of these begin at the same time.
        long[] permitsAt = new long[length];
        double most = 0;
        for (Granted begin : latestFirst) {
            permitsAt[(int) (begin.to - first)] += begin.permits;
            long permits = 0;
            for (int at = (int) Math.max(0, begin.from - first); at < length; at++) {
                permits += permitsAt[at];
                most = Math.max(most, permits - perMilli * (first + at - begin.from));
            }
        }
        assertThat(most).isLessThanOrEqualTo(limit.capacity() + 1e-6);
    }

    private long forward(Predicate<Step> when) {
        return steps.stream()
                .filter(when)
                .mapToLong(step -> Math.max(0, step.millis))
                .sum();
    }
}
