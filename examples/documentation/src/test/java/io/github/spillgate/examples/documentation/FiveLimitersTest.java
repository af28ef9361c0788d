package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ManualClock;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Models of the limiters of docs/background/origins.md, beside the limits that the page shows in their place. */
class FiveLimitersTest {

    private static final long SECOND = 1_000;
    private static final long MINUTE = 60 * SECOND;
    private static final long HOUR = 60 * MINUTE;

    /** The start of an ordinary day. */
    private static final long START = 1_790_035_200_000L;

    private static final String KEY = "key";

    private final ManualClock clock = new ManualClock();

    /** A store decides as Redis does: its contract tests show that. */
    private final RateLimiter ours = RateLimiter.builder("five")
            .store(LocalStore.bounded(1_000, clock))
            .limit(Limit.perSecond(1))
            .build();

    @Test
    void denoKvNeverAdmitsASteadyClientAgain() throws IOException {
        Charge charge = Charge.of(KEY, shown("50/1h counter aligned"));
        Map<Long, Long> hours = new HashMap<>();
        int there = 0;
        int here = 0;
        for (long now = START; now < START + 10 * HOUR; now += MINUTE) {
            double estimate = estimate(hours, now, HOUR);
            hours.merge(now / HOUR, 1L, Long::sum);
            there += Math.floor(estimate) < 50 ? 1 : 0;
            here += ask(now, charge).isAllowed() ? 1 : 0;
        }
        assertThat(there).isEqualTo(50);
        assertThat(here).isGreaterThan(480);
    }

    @Test
    void honoNeverAdmitsAClientThatObeysRetryAfter() throws IOException {
        Charge charge = Charge.of(KEY, shown("10/1m"));
        List<Long> stored = new ArrayList<>();
        long now = START;
        Decision decision = ask(now, charge);
        stored.add(now);
        for (int i = 1; i < 15; i++) {
            now += SECOND;
            stored.add(now);
            decision = ask(now, charge);
            assertThat(decision.isAllowed()).isEqualTo(i < 10).isEqualTo(stored.size() <= 10);
        }
        for (long retry = now; retry < START + HOUR; ) {
            retry = Math.max(retry + SECOND, stored.get(0) + MINUTE);
            stored.add(retry);
            long windowStart = retry - MINUTE;
            stored.removeIf(at -> at <= windowStart);
            assertThat(stored).hasSizeGreaterThan(10);
        }
        long wait = decision.retryAfter().orElseThrow().toMillis();
        assertThat(ask(now + wait - 1, charge).isAllowed()).isFalse();
        assertThat(ask(now + wait, charge).isAllowed()).isTrue();
    }

    @Test
    void vatnodeChargesTheDayForRequestsThatTheEndpointDenies() throws IOException {
        Charge[] tiers = {
            Charge.of("address", shown("120/1m")),
            Charge.of("plan", shown("100/24h")),
            Charge.of("validate", shown("30/1m"))
        };
        List<SortedSet> theirs = List.of(
                new SortedSet(120, MINUTE, new ArrayList<>()),
                new SortedSet(100, 24 * HOUR, new ArrayList<>()),
                new SortedSet(30, MINUTE, new ArrayList<>()));
        int there = 0;
        int here = 0;
        for (long now = START; now < START + 50 * SECOND; now += SECOND / 2) {
            long at = now;
            there += theirs.stream().allMatch(tier -> tier.allows(at)) ? 1 : 0;
            here += ask(now, tiers).isAllowed() ? 1 : 0;
        }
        assertThat(there).isEqualTo(30);
        assertThat(here).isEqualTo(30);
        assertThat(theirs.get(1).allows(START + HOUR)).isFalse();
        assertThat(ask(START + HOUR, tiers[1]).remaining()).isEqualTo(69);
    }

    @Test
    void pgRatelimitDecidesTheSameForAnyTrafficAndCost() throws IOException {
        Limit limit = shown("50/30s counter");
        long window = limit.window().toMillis();
        int allowed = 0;
        int denied = 0;
        for (int seed = 0; seed < 100; seed++) {
            Random random = new Random(seed);
            String key = "seed " + seed;
            Row row = new Row(0, 0, 0);
            for (long now : traffic(random, 300, window, limit.permits())) {
                int cost = random.nextInt(5) == 0 ? 1 + random.nextInt(50) : 1 + random.nextInt(3);
                Row seen = row.at(now, window);
                double weight = 1 - (double) (now - seen.start) / window;
                boolean fits = seen.previous * weight + seen.count + cost <= limit.permits();
                if (fits) {
                    row = new Row(seen.count + cost, seen.previous, seen.start);
                }
                assertThat(ask(now, Charge.of(key, limit).permits(cost)).isAllowed())
                        .as("%s, %d at %d", key, cost, now)
                        .isEqualTo(fits);
                allowed += fits ? 1 : 0;
                denied += fits ? 0 : 1;
            }
        }
        assertThat(allowed).isGreaterThan(1_000);
        assertThat(denied).isGreaterThan(1_000);
    }

    @Test
    void fixedRateDecidesTheSameForAnyTraffic() throws IOException {
        int allowed = 0;
        int denied = 0;
        for (Limit limit : List.of(shown("500/1m counter aligned"), shown("10000/15m counter aligned"))) {
            long window = limit.window().toMillis();
            for (int seed = 0; seed < 2; seed++) {
                Charge charge = Charge.of("seed " + seed, limit);
                Map<Long, Long> buckets = new HashMap<>();
                for (long now : traffic(new Random(seed), (int) (3 * limit.permits()), window, limit.permits())) {
                    boolean fits = estimate(buckets, now, window) + 1 <= limit.permits();
                    buckets.merge(now / window, fits ? 1L : 0L, Long::sum);
                    assertThat(ask(now, charge).isAllowed())
                            .as("%s, seed %d at %d", limit, seed, now)
                            .isEqualTo(fits);
                    allowed += fits ? 1 : 0;
                    denied += fits ? 0 : 1;
                }
            }
        }
        assertThat(allowed).isGreaterThan(1_000);
        assertThat(denied).isGreaterThan(1_000);
    }

    /** Returns the hits of this window of the clock, and of the previous one as if they had been spread evenly. */
    private static double estimate(Map<Long, Long> counts, long now, long window) {
        long current = now / window;
        double share = (double) (window - now % window) / window;
        return counts.getOrDefault(current - 1, 0L) * share + counts.getOrDefault(current, 0L);
    }

    private Decision ask(long now, Charge... charges) {
        clock.set(now);
        return ours.tryAcquire(charges).block();
    }

    /** Returns the limit of this text, which must be on the page. */
    private static Limit shown(String text) throws IOException {
        assertThat(Files.readString(ROOT.resolve("docs/background/origins.md")))
                .containsPattern("[\" ]\\Q" + text + "\\E[\"\\n]");
        return Limit.parse(text);
    }

    /** Returns random instants, often exactly one window after an earlier one, that exceed a limit at times. */
    private static List<Long> traffic(Random random, int requests, long window, long permits) {
        long share = Math.max(1, window / permits);
        long now = START + random.nextLong(window);
        List<Long> instants = new ArrayList<>();
        int oldest = 0;
        while (instants.size() < requests) {
            instants.add(now);
            while (instants.get(oldest) + window <= now) {
                oldest++;
            }
            now += switch (random.nextInt(8)) {
                case 0, 1, 2 -> random.nextInt(2);
                case 3 -> Math.min(share, instants.get(oldest) + window - now);
                case 4 -> share - now % share;
                case 5 -> random.nextLong(permits) == 0 ? random.nextLong(3 * window) : 0;
                default -> random.nextLong(share + 1);
            };
        }
        return instants;
    }

    /** The row of a key in PostgreSQL, which only an allowed request writes. */
    private record Row(long count, long previous, long start) {

        Row at(long now, long window) {
            if (now < start + window) {
                return this;
            }
            return now < start + 2 * window ? new Row(0, count, start + window) : new Row(0, 0, now);
        }
    }

    private record SortedSet(int max, long window, List<Long> stored) {

        boolean allows(long now) {
            stored.removeIf(at -> at <= now - window);
            return stored.size() < max && stored.add(now);
        }
    }
}
