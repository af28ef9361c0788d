package io.github.spillgate.examples.benchmark.work;

import static io.github.spillgate.examples.benchmark.contender.Entrant.BUCKET;
import static io.github.spillgate.examples.benchmark.contender.Entrant.BUCKET4J;
import static io.github.spillgate.examples.benchmark.contender.Entrant.BUCKET4J_BATCHING;
import static io.github.spillgate.examples.benchmark.contender.Entrant.BUCKET4J_JDBC;
import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER;
import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER_GROUPED_IN_THREE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER_IN_ONE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER_IN_POSTGRES;
import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER_IN_THREE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER_ON_LOOP;
import static io.github.spillgate.examples.benchmark.contender.Entrant.EVALSHA;
import static io.github.spillgate.examples.benchmark.contender.Entrant.EVALSHA_IN_ONE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.EVALSHA_IN_THREE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LEASED;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOCAL_BUCKET4J;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOCAL_COUNTER;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOCAL_LOG;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOCAL_RESILIENCE4J;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOCKING;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOG;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOG_IN_ONE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOG_IN_POSTGRES;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOG_IN_THREE;
import static io.github.spillgate.examples.benchmark.contender.Entrant.LOG_ON_LOOP;
import static io.github.spillgate.examples.benchmark.contender.Entrant.PING;
import static io.github.spillgate.examples.benchmark.contender.Entrant.REDISSON;
import static io.github.spillgate.examples.benchmark.contender.Entrant.SPRING_GATEWAY;

import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.Rate;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * All workloads.
 *
 * <p>If all decisions allow, the limit is the same for all contenders, and too large to be reached. A log stores each
 * hit of a window, so the limit and the window are part of the workload: 100 permits a second for each of 10,000 keys
 * allow a million decisions a second, and each log contains the hits of its key within one second.
 */
public final class Works {

    private static final Entrant[] ON_REDIS = {
        PING, EVALSHA, BUCKET4J, BUCKET4J_BATCHING, REDISSON, SPRING_GATEWAY, LOG, COUNTER
    };
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Rate A_HUNDRED = new Rate(100, SECOND);
    private static final Rate A_MILLION_A_DAY = new Rate(1_000_000, Duration.ofDays(1));
    private static final String BUSY = "100 keys, requested faster than the permits of a bucket return";
    private static final int MANY = 10_000;
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

    private Works() {}

    public static List<Work> all() {
        List<Work> works = new ArrayList<>();
        works.add(manyKeys());
        works.add(Work.of("hot-key", "one key, all allowed", ON_REDIS).build());
        works.add(denied());
        works.add(oneInFlight());
        works.add(threeLimits());
        for (int keys : new int[] {1_000, 10_000, 100_000, 1_000_000}) {
            works.add(keys(keys));
        }
        for (int instances : new int[] {1, 2, 4}) {
            works.add(instances(instances));
        }
        works.add(local("local-one-thread", "no Redis, 10,000 keys, all allowed, on one thread", 1));
        works.add(local(
                "local-all-cores", "no Redis, 10,000 keys, all allowed, a thread for each processor", PROCESSORS));
        for (int inFlight : new int[] {1, 4, 16, 64, 256, 1_024}) {
            works.add(inFlight(inFlight));
        }
        for (int keys : new int[] {1_000, 10_000, 100_000}) {
            works.add(deniedKeys(keys));
        }
        works.add(kinds("kinds", "10,000 keys, all allowed", 256, MANY, A_HUNDRED, LOG, COUNTER, BUCKET));
        works.add(kinds(
                "kinds-one", "one decision at a time, for 10,000 keys", 1, MANY, A_HUNDRED, LOG, COUNTER, BUCKET));
        works.add(kinds("kinds-busy", BUSY, 256, 100, A_MILLION_A_DAY, COUNTER, BUCKET));
        works.add(kinds(
                "kinds-busy-one", "one decision at a time, for " + BUSY, 1, 100, A_MILLION_A_DAY, COUNTER, BUCKET));
        for (int instances : new int[] {1, 4}) {
            works.add(leased(instances));
        }
        works.add(zipf());
        works.add(cluster("cluster", "10,000 keys", MANY));
        works.add(cluster("cluster-100", "100 keys", 100));
        works.add(cluster("cluster-hot", "one key", 1));
        // Those with a delay first, because the time of the server and the client counts least in them, until all are
        // warm.
        for (int inFlight : new int[] {256, 16, 4}) {
            works.add(postgres("common", "one key of four limiters, with a millisecond more for each trip", inFlight)
                    .instances(4)
                    .far()
                    .build());
        }
        for (int inFlight : new int[] {256, 16, 1}) {
            works.add(postgres("hot", "one key", inFlight).build());
        }
        for (int inFlight : new int[] {256, 16, 1}) {
            works.add(postgres("keys", "10,000 keys", inFlight)
                    .keys(MANY)
                    .rates(A_HUNDRED)
                    .build());
        }
        return works;
    }

    private static Work manyKeys() {
        return Work.of("many-keys", "10,000 keys, all allowed: 100 permits a second each", ON_REDIS)
                .keys(MANY)
                .rates(A_HUNDRED)
                .build();
    }

    private static Work denied() {
        return Work.of("denied", "one key, all denied: 10 permits an hour, used up before", ON_REDIS)
                .rates(new Rate(10, Duration.ofHours(1)))
                .allDenied()
                .build();
    }

    private static Work oneInFlight() {
        return Work.of(
                        "one-in-flight",
                        "one decision at a time",
                        PING,
                        EVALSHA,
                        BUCKET4J,
                        REDISSON,
                        SPRING_GATEWAY,
                        LOG,
                        COUNTER)
                .inFlight(1)
                .comparedTo(Baseline.PING)
                .build();
    }

    private static Work threeLimits() {
        return Work.of(
                        "three-limits",
                        "10,000 keys under three limits, all allowed; Redisson and Spring Cloud Gateway know only one",
                        EVALSHA,
                        BUCKET4J,
                        BUCKET4J_BATCHING,
                        LOG,
                        COUNTER)
                .keys(MANY)
                .rates(A_HUNDRED, new Rate(3_000, Duration.ofMinutes(1)), new Rate(50_000, Duration.ofHours(1)))
                .build();
    }

    private static Work keys(int keys) {
        return Work.of(
                        "keys",
                        String.format(Locale.ROOT, "%,d keys, all allowed", keys),
                        EVALSHA,
                        BUCKET4J,
                        LOG,
                        COUNTER)
                .named("keys-" + keys)
                .keys(keys)
                // Allow a million decisions a second in total, and at least 100 for each key.
                .rates(new Rate(Math.max(100, 1_000_000 / keys), SECOND))
                .build();
    }

    private static Work instances(int instances) {
        return Work.of(
                        "instances",
                        instances + (instances == 1 ? " limiter" : " limiters")
                                + " on one Redis and one key, all allowed, 256 in flight in all",
                        BUCKET4J_BATCHING,
                        LOG,
                        COUNTER)
                .named("instances-" + instances)
                .instances(instances)
                .comparedTo(Baseline.BATCHING)
                .build();
    }

    private static Work leased(int instances) {
        return Work.of(
                        "leased",
                        instances + (instances == 1 ? " limiter" : " limiters")
                                + " on one Redis and one key, all allowed, 256 in flight in all",
                        BUCKET4J_BATCHING,
                        LOG,
                        LEASED)
                .named("leased-" + instances)
                .instances(instances)
                .comparedTo(Baseline.BATCHING)
                .build();
    }

    /** With a window of a minute, so that a lease lasts as long as it can. */
    private static Work zipf() {
        return Work.of(
                        "zipf",
                        "100,000 keys, all allowed, of which the n-th is used in proportion to 1/n",
                        EVALSHA,
                        BUCKET4J,
                        BUCKET4J_BATCHING,
                        REDISSON,
                        SPRING_GATEWAY,
                        LOG,
                        LEASED)
                .keys(100_000)
                .skewed()
                .rates(new Rate(60_000_000, Duration.ofMinutes(1)))
                .build();
    }

    private static Work inFlight(int number) {
        return Work.of(
                        "in-flight",
                        (number == 1 ? "one decision" : String.format(Locale.ROOT, "%,d decisions", number))
                                + " at a time, for 10,000 keys, all allowed",
                        EVALSHA,
                        LOG_ON_LOOP,
                        COUNTER_ON_LOOP,
                        LOG,
                        COUNTER)
                .named("in-flight-" + number)
                .inFlight(number)
                .keys(MANY)
                .rates(A_HUNDRED)
                .comparedTo(Baseline.EVALSHA)
                .build();
    }

    private static Work deniedKeys(int keys) {
        return Work.of("denied-keys", String.format(Locale.ROOT, "%,d keys, all denied for an hour", keys), COUNTER)
                .named("denied-keys-" + keys)
                .keys(keys)
                .rates(new Rate(1, Duration.ofHours(1)))
                .allDenied()
                .build();
    }

    private static Work kinds(String name, String description, int inFlight, int keys, Rate rate, Entrant... kinds) {
        return Work.of("kinds", description, kinds)
                .named(name)
                .inFlight(inFlight)
                .keys(keys)
                .rates(rate)
                .comparedTo(Baseline.COUNTER)
                .build();
    }

    private static Work cluster(String name, String keys, int number) {
        return Work.of(
                        "cluster",
                        keys + ", all allowed, on one Redis, and in clusters of one and of three primaries",
                        EVALSHA,
                        EVALSHA_IN_ONE,
                        EVALSHA_IN_THREE,
                        LOG,
                        LOG_IN_ONE,
                        LOG_IN_THREE,
                        COUNTER,
                        COUNTER_IN_ONE,
                        COUNTER_IN_THREE,
                        COUNTER_GROUPED_IN_THREE)
                .named(name)
                .keys(number)
                .rates(new Rate(10_000_000 / number, SECOND))
                .comparedTo(Baseline.ONE_PRIMARY)
                .build();
    }

    private static Work.Builder postgres(String name, String keys, int inFlight) {
        return Work.of(
                        "postgres",
                        keys + ", all allowed, on PostgreSQL, " + inFlight + " in flight in all",
                        BUCKET4J_JDBC,
                        LOCKING,
                        LOG_IN_POSTGRES,
                        COUNTER_IN_POSTGRES)
                .named("postgres-" + name + "-" + inFlight)
                .inFlight(inFlight);
    }

    private static Work local(String name, String description, int threads) {
        return Work.of("local", description, LOCAL_BUCKET4J, LOCAL_RESILIENCE4J, LOCAL_LOG, LOCAL_COUNTER)
                .named(name)
                .keys(MANY)
                .rates(new Rate(1_000_000, SECOND))
                .threads(threads)
                .inFlight(threads)
                .build();
    }
}
