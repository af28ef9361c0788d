package io.github.spillgate.examples.documentation.seeds;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The sliding window of pg-ratelimit, with costs, compared with the same limit here. */
class PgRatelimitTest {

    private static final long SECOND = 1_000;
    private static final long START = Traffic.START;
    private static final String KEY = "user:123";

    private static final Page PAGE = Page.of("pg-ratelimit.md");
    private static final Limit SAME = PAGE.limit("50/30s counter");
    private static final Limit EXACT = PAGE.limit("50/30s");
    private static final long WINDOW = SAME.window().toMillis();

    private final PgRatelimit theirs = new PgRatelimit(SAME.permits(), WINDOW);

    @Test
    void bothAgreeOnAnyTrafficWithAnyCostUpToTheLimit() {
        int allowed = 0;
        int denied = 0;
        for (int seed = 0; seed < 200; seed++) {
            Random random = new Random(seed);
            Ours ours = new Ours(SAME);
            String key = "seed " + seed;
            for (long now : Traffic.of(seed, 300, WINDOW, SAME.permits(), false)) {
                int cost = random.nextInt(5) == 0 ? 1 + random.nextInt(50) : 1 + random.nextInt(3);
                boolean here = ours.ask(now, Charge.of(key).permits(cost)).isAllowed();
                assertThat(theirs.allows(key, cost, now))
                        .as("%s, %d at %d", key, cost, now)
                        .isEqualTo(here);
                allowed += here ? 1 : 0;
                denied += here ? 0 : 1;
            }
        }
        assertThat(allowed).isGreaterThan(10_000);
        assertThat(denied).isGreaterThan(10_000);
    }

    @Test
    void theExampleOfThePage() {
        PgRatelimit ten = new PgRatelimit(10, WINDOW);
        Ours ours = new Ours(Limit.counter(10, SAME.window()));
        long third = START + WINDOW + 3 * WINDOW / 10;
        assertThat(ten.allows(KEY, 8, START)).isTrue();
        assertThat(ours.ask(START, Charge.of(KEY).permits(8)).isAllowed()).isTrue();
        // 8 × 0.7 + 3 + 1 is 9.6, and one more would exceed the limit.
        for (int i = 0; i < 5; i++) {
            boolean fits = i < 4;
            assertThat(ten.allows(KEY, 1, third)).isEqualTo(fits);
            assertThat(ours.allows(KEY, third)).isEqualTo(fits);
        }
    }

    /** 99 × (1 − 20/60) + 33 + 1 is 100, but not in doubles. */
    @Test
    void aRequestThatJustFitsIsDeniedByRounding() {
        PgRatelimit hundred = new PgRatelimit(100, 60 * SECOND);
        Ours ours = new Ours(Limit.perMinute(100).counter());
        long third = START + 80 * SECOND;
        hundred.allows(KEY, 99, START);
        ours.ask(START, Charge.of(KEY).permits(99));
        assertThat(hundred.allows(KEY, 33, third)).isTrue();
        assertThat(ours.ask(third, Charge.of(KEY).permits(33)).isAllowed()).isTrue();
        assertThat(hundred.allows(KEY, 1, third)).isFalse();
        assertThat(ours.allows(KEY, third)).isTrue();
        assertThat(ours.allows(KEY, third)).isFalse();
    }

    /** The row is inserted before the check, so a request above the limit starts a window without a charge. */
    @Test
    void aRequestAboveTheLimitStartsAWindow() {
        Ours ours = new Ours(SAME);
        assertThat(theirs.allows(KEY, 51, START)).isFalse();
        Decision never = ours.ask(START, Charge.of(KEY).permits(51));
        assertThat(never.isAllowed()).isFalse();
        assertThat(never.retryAfter()).isEmpty();
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        for (long burst : new long[] {START + WINDOW - SECOND, START + WINDOW + WINDOW / 2}) {
            for (int i = 0; i < 50; i++) {
                there.add(theirs.allows(KEY, 1, burst + i), burst + i);
                here.add(ours.allows(KEY, burst + i), burst + i);
            }
        }
        assertThat(there.mostIn(WINDOW)).isEqualTo(75);
        assertThat(here.mostIn(WINDOW)).isEqualTo(50);
    }

    /**
     * One request at the right time makes the window end after the burst; the estimate assumes that the burst was
     * spread evenly.
     */
    @Test
    void aBurstAtTheEndOfAWindowFadesTooEarly() {
        Ours ours = new Ours(SAME);
        Ours log = new Ours(EXACT);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        Admitted exact = new Admitted();
        for (long now = START; now < START + 2 * WINDOW; now += 20) {
            if (now == START || now >= START + WINDOW - SECOND) {
                there.add(theirs.allows(KEY, 1, now), now);
                here.add(ours.allows(KEY, now), now);
                exact.add(log.allows(KEY, now), now);
            }
        }
        assertThat(there.mostIn(WINDOW)).isEqualTo(97);
        assertThat(here.mostIn(WINDOW)).isEqualTo(97);
        assertThat(exact.mostIn(WINDOW)).isEqualTo(50);
    }

    @Test
    void theLogNeverExceedsTheLimitInAnyWindow() {
        for (int seed = 0; seed < 50; seed++) {
            Ours ours = new Ours(EXACT);
            Admitted here = new Admitted();
            for (long now : Traffic.of(seed, 400, WINDOW, EXACT.permits(), false)) {
                here.add(ours.allows(KEY, now), now);
            }
            assertThat(here.mostIn(WINDOW)).as("seed %d", seed).isLessThanOrEqualTo(50);
        }
    }

    @Test
    void aCallerWithAFastClockResetsTheWindowAndLocksOutOthers() {
        assertThat(theirs.allows(KEY, 50, START)).isTrue();
        assertThat(theirs.allows(KEY, 50, START + 3_600 * SECOND)).isTrue();
        assertThat(theirs.allows(KEY, 1, START + 3_000 * SECOND)).isFalse();
    }

    /** Ours uses only the clock of Redis. If it steps back, later hits count as of now. */
    @Test
    void aClockThatStepsBackAnHourLocksOutTheirClientsForAnHour() {
        Ours ours = new Ours(SAME);
        long before = START - 3_600 * SECOND;
        assertThat(theirs.allows(KEY, 50, START)).isTrue();
        assertThat(ours.ask(START, Charge.of(KEY).permits(50)).isAllowed()).isTrue();
        assertThat(theirs.allows(KEY, 1, before + 3_590 * SECOND)).isFalse();
        Duration wait = ours.ask(before, Charge.of(KEY)).retryAfter().orElseThrow();
        assertThat(wait).isLessThan(SAME.window().multipliedBy(2));
        assertThat(ours.allows(KEY, before + wait.toMillis())).isTrue();
    }
}
