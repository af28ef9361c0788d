package io.github.spillgate.examples.documentation.seeds;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The hourly counter on Deno KV, compared with the same limit here. */
class DenoKvTest {

    private static final long HOUR = DenoKv.HOUR;
    private static final long MINUTE = 60_000;
    private static final long SECOND = 1_000;
    private static final long START = Traffic.START;
    private static final String USER = "user";

    private static final Page PAGE = Page.of("deno-kv.md");
    private static final Limit SAME = PAGE.limit("50/1h counter aligned");
    private static final Limit SAME_COUNTING_DENIED = PAGE.limit("50/1h counter aligned counting-denied");
    private static final Limit FROM_FIRST_HIT = PAGE.limit("50/1h counter");
    private static final Limit EXACT = PAGE.limit("50/1h");

    private final DenoKv theirs = new DenoKv();

    /** After the first denial they differ, because the original counts it. */
    @Test
    void bothAgreeUntilTheFirstDenialExceptForAFractionOfARequest() {
        int both = 0;
        int denied = 0;
        int fractions = 0;
        for (int seed = 0; seed < 200; seed++) {
            DenoKv model = new DenoKv();
            Ours ours = new Ours(SAME);
            for (long now : Traffic.of(seed, 300, HOUR, DenoKv.MAXIMUM, false)) {
                DenoKv.Seen seen = model.reads(USER, now);
                boolean letThrough = model.writes(seen);
                if (ours.allows(USER, now)) {
                    assertThat(letThrough).as("seed %d at %d", seed, now).isTrue();
                    both++;
                    continue;
                }
                if (letThrough) {
                    assertThat(seen.estimate())
                            .as("seed %d at %d", seed, now)
                            .isGreaterThan(DenoKv.MAXIMUM - 1)
                            .isLessThan(DenoKv.MAXIMUM);
                    fractions++;
                } else {
                    denied++;
                }
                break;
            }
        }
        assertThat(both).isGreaterThan(5_000);
        assertThat(denied).isGreaterThan(20);
        assertThat(fractions).isGreaterThan(20);
    }

    /** Even if the hits of the previous hour were spread evenly, as the estimate assumes. */
    @Test
    void theFractionIsOneRequestTooMany() {
        Ours ours = new Ours(SAME);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        List<Long> instants = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            instants.add(START + 36 * SECOND + 72L * i * SECOND);
        }
        instants.add(START + HOUR + SECOND);
        for (long now : instants) {
            there.add(theirs.allows(USER, now), now);
            here.add(ours.allows(USER, now), now);
        }
        assertThat(there.mostIn(HOUR)).isEqualTo(51);
        assertThat(here.mostIn(HOUR)).isEqualTo(50);
        for (long now = START + HOUR + 2 * SECOND; now < START + 2 * HOUR; now += SECOND) {
            here.add(ours.allows(USER, now), now);
        }
        assertThat(here.total()).isGreaterThan(90);
        assertThat(here.mostIn(HOUR)).isEqualTo(50);
    }

    @Test
    void requestsThatReadConcurrentlyAreAllAdmitted() {
        for (int i = 0; i < 49; i++) {
            assertThat(theirs.allows(USER, START + i)).isTrue();
        }
        List<DenoKv.Seen> seen = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            seen.add(theirs.reads(USER, START + 50));
        }
        assertThat(seen.stream().filter(theirs::writes)).hasSize(64);
    }

    @Test
    void theFirstRequestsOfAnHourAreCountedAsOne() {
        List<DenoKv.Seen> seen = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            seen.add(theirs.reads(USER, START));
        }
        assertThat(seen.stream().filter(theirs::writes)).hasSize(64);
        assertThat(theirs.counted(USER, START)).isEqualTo(1);
    }

    @Test
    void oursAdmitsOneOfManyConcurrentRequestsForTheLastPermit() {
        try (Instances ours = new Instances(SAME)) {
            assertThat(ours.ask(USER, 49).isAllowed()).isTrue();
            assertThat(ours.allowed(USER, 64)).isEqualTo(1);
        }
    }

    @Test
    void aClientWithOneRequestAMinuteIsNeverAdmittedAgain() {
        Ours ours = new Ours(SAME);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        for (long now = START; now < START + 10 * HOUR; now += MINUTE) {
            there.add(theirs.allows(USER, now), now);
            here.add(ours.allows(USER, now), now);
        }
        assertThat(there.total()).isEqualTo(50);
        assertThat(here.total()).isGreaterThan(480);
    }

    /** Compared with {@code counting-denied}, which counts denied requests on purpose. */
    @Test
    void afterManyDenialsOursWaitsAsAfterOneFullHour() {
        Ours ours = new Ours(SAME_COUNTING_DENIED);
        DenoKv early = new DenoKv();
        for (int i = 0; i < 1_000; i++) {
            long now = START + i * SECOND;
            theirs.allows(USER, now);
            early.allows(USER, now);
            ours.allows(USER, now);
        }
        assertThat(early.allows(USER, START + HOUR + 56 * MINUTE)).isFalse();
        assertThat(theirs.allows(USER, START + HOUR + 58 * MINUTE)).isTrue();
        long fits = START + HOUR + 72 * SECOND;
        assertThat(ours.look(fits - 1, Charge.of(USER)).isAllowed()).isFalse();
        assertThat(ours.allows(USER, fits)).isTrue();
    }

    /**
     * Both estimates assume an even spread. A log does not, and windows from the first hit do not start on the hour.
     */
    @Test
    void aBurstJustBeforeTheHourFadesTooEarly() {
        assertThat(mostOfTwoBursts(theirs::allows)).isEqualTo(75);
        assertThat(mostOfTwoBursts(new Ours(SAME)::allows)).isEqualTo(75);
        assertThat(mostOfTwoBursts(new Ours(FROM_FIRST_HIT)::allows)).isEqualTo(50);
        assertThat(mostOfTwoBursts(new Ours(EXACT)::allows)).isEqualTo(50);
    }

    @Test
    void theLogNeverExceedsTheLimitInAnyHour() {
        for (int seed = 0; seed < 50; seed++) {
            Ours ours = new Ours(EXACT);
            Admitted here = new Admitted();
            for (long now : Traffic.of(seed, 400, HOUR, DenoKv.MAXIMUM, false)) {
                here.add(ours.allows(USER, now), now);
            }
            assertThat(here.mostIn(HOUR)).as("seed %d", seed).isLessThanOrEqualTo(50);
        }
    }

    private static long mostOfTwoBursts(Limiter limiter) {
        Admitted admitted = new Admitted();
        for (long burst : List.of(START + 59 * MINUTE, START + 90 * MINUTE)) {
            for (int i = 0; i < 50; i++) {
                admitted.add(limiter.allows(USER, burst), burst);
            }
        }
        return admitted.mostIn(HOUR);
    }

    private interface Limiter {
        boolean allows(String user, long now);
    }
}
