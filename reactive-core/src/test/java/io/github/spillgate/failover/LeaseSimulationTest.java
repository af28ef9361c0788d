package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.LeaseSimulation.Result;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.Thorough;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * What leases cost in permits that are not granted, and what they save in trips.
 * docs/background/lease-simulation.md has the figures, which {@code -Dspillgate.chaos.tell=true} prints.
 */
class LeaseSimulationTest {

    private static final int KEYS = 100_000;

    private static final Path PAGE = Path.of("..", "docs", "background", "lease-simulation.md");

    @ParameterizedTest
    @CsvSource({"6000/1m, 4, 1 2", "1000/1s, 4, 1", "1000/1s burst=200, 4, 2"})
    void nearlyAllIsGrantedThatAnExactLimiterGrants(String limit, String instances, String demands) {
        assertNearlyAllIsGranted(limit, instances, demands, 1);
    }

    /** Each number of instances with each demand. A request asks for up to so many permits. */
    @ParameterizedTest
    @CsvSource({
        "6000/1m, 1 4 16, 0.5 1 2 10, 1",
        "1000/1s, 1 4 16, 0.5 1 2 10, 1",
        "60000/1m, 4, 0.5 1 2, 1",
        "100/1s, 4, 0.5 1 2 10, 1",
        "6000/1m burst=600, 1, 0.5 1, 1",
        "6000/1m burst=600, 4, 0.5 1 2 10, 1",
        "6000/1m burst=600, 16, 1, 1",
        "6000/1m burst=60, 4, 1, 1",
        "1000/1s burst=1000, 1 4 16, 1, 1",
        "1000/1s burst=1000, 4, 10, 1",
        "1000/1s burst=200, 1, 1, 1",
        "1000/1s burst=200, 4, 0.5 1, 1",
        "1000/1s burst=50, 4, 1, 1",
        "100/1s burst=50, 4, 1, 1",
        "6000/1m, 4, 1 2 10, 20",
        "6000/1m, 4, 1 2, 200",
        "6000/1m, 16, 1, 20",
        "10000/1s, 4, 1 2, 20",
        "10000/1s, 4, 10, 100",
        "6000/1m burst=600, 4, 1 2, 20",
        "10000/1s burst=2000, 4, 1, 20",
        "10000/1s burst=2000, 4, 2, 100"
    })
    @Thorough
    void nearlyAllIsGrantedForOtherLimitsAndCosts(String limit, String instances, String demands, int highestCost) {
        assertNearlyAllIsGranted(limit, instances, demands, highestCost);
    }

    private static void assertNearlyAllIsGranted(String limit, String instances, String demands, int highestCost) {
        for (String number : instances.split(" ", -1)) {
            for (String demand : demands.split(" ", -1)) {
                assertNearlyAllIsGranted(
                        Limit.parse(limit), Integer.parseInt(number), Double.parseDouble(demand), highestCost);
            }
        }
    }

    private static void assertNearlyAllIsGranted(Limit limit, int instances, double demand, int highestCost) {
        double permits = demand * limit.permits() * 1_000 / limit.window().toMillis();
        double perSecond = permits * 2 / (1 + highestCost);
        double[] even = new double[instances];
        Arrays.fill(even, 1.0 / instances);
        // One instance has most of the traffic.
        double[] uneven = new double[instances];
        Arrays.fill(uneven, 0.15 / (instances - 1));
        uneven[0] = instances == 1 ? 1 : 0.85;
        for (double[] parts : new double[][] {even, uneven}) {
            try (LeaseSimulation simulation = new LeaseSimulation(limit.leased(), instances, 1)) {
                simulation.costUpTo(highestCost);
                Result result = simulation.run(limit.window().multipliedBy(3), perSecond, parts, random -> "key");
                String what = ("%s, %d instances, %s, demand %s, costs up to %d: granted %.4f of an exact limiter;"
                                + " trips %.3f, refunds %.3f")
                        .formatted(
                                limit,
                                instances,
                                parts == even ? "even" : "uneven",
                                demand,
                                highestCost,
                                result.part(),
                                result.tripsPerRequest(),
                                (double) result.refunds() / result.requests());
                Chaos.report("leases", what);
                assertThat(result.mostInWindow()).as(what).isLessThanOrEqualTo(limit.capacity());
                assertThat(result.part()).as(what).isGreaterThan(0.95);
            }
        }
    }

    /** The rows of the table on docs/background/lease-simulation.md. */
    @Test
    @Thorough
    void onlyLeasesNeverExceedTheLimit() throws IOException {
        List<String> rows = new ArrayList<>();
        for (double demand : new double[] {1, 2, 10}) {
            for (int instances : new int[] {1, 4, 16}) {
                rows.add(over(Limit.perSecond(1_000).leased(), instances, demand));
            }
        }
        rows.forEach(row -> Chaos.report("leases", row));
        assertThat(Files.readAllLines(PAGE)).containsSubsequence(rows);
    }

    private static String over(Limit limit, int instances, double demand) {
        double[] parts = new double[instances];
        Arrays.fill(parts, 1.0 / instances);
        DelayedSync apisix = new DelayedSync.Apisix(limit.permits(), limit.window(), instances);
        DelayedSync wso2 = new DelayedSync.Wso2(limit.permits(), limit.window(), instances);
        try (LeaseSimulation simulation = new LeaseSimulation(limit, instances, 1)) {
            simulation.compareWith(apisix);
            simulation.compareWith(wso2);
            Result result =
                    simulation.run(limit.window().multipliedBy(5), demand * limit.permits(), parts, random -> "key");
            assertThat(result.mostInWindow()).isLessThanOrEqualTo(limit.permits());
        }
        return String.format(
                Locale.ROOT, "| %.0f | %d | 0 | %.1f %% | %.1f %% |", demand, instances, wso2.over(), apisix.over());
    }

    /** Many keys, of which few are hot; none reaches its limit. */
    @ParameterizedTest
    @CsvSource({"100000, 0.45", "1000000, 0.25"})
    @Proof
    void hotKeysNeedFewTrips(int perSecond, double most) {
        try (LeaseSimulation simulation =
                new LeaseSimulation(Limit.of(100_000_000, Duration.ofMinutes(1)).leased(), 1, 1)) {
            double[] all = {1};
            simulation.warmUp(Duration.ofSeconds(1), perSecond, all, zipf());
            Result result = simulation.run(Duration.ofSeconds(1), perSecond, all, zipf());
            Chaos.report(
                    "leases",
                    "Zipf over %d keys, %d a second: trips %.3f, refunds %.4f"
                            .formatted(
                                    KEYS,
                                    perSecond,
                                    result.tripsPerRequest(),
                                    (double) result.refunds() / result.requests()));
            assertThat(result.tripsPerRequest()).isLessThan(most);
        }
    }

    /** The n-th key gets a part of the requests that is proportional to 1/n. */
    private static IntFunction<String> zipf() {
        double[] sums = new double[KEYS];
        double sum = 0;
        for (int i = 0; i < KEYS; i++) {
            sum += 1.0 / (i + 1);
            sums[i] = sum;
        }
        double all = sum;
        return random -> {
            int found = Arrays.binarySearch(sums, (double) random / Integer.MAX_VALUE * all);
            return "key-" + (found < 0 ? -found - 1 : found);
        };
    }
}
