package io.github.spillgate.examples.documentation.seeds;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Sliding Window–Fixed Rate on memcached, compared with the same limit here. */
class FixedRateTest {

    private static final long SECOND = 1_000;
    private static final long MINUTE = 60_000;
    private static final long START = Traffic.START;
    private static final String KEY = "client";

    private static final Page PAGE = Page.of("fixed-rate.md");
    private static final Limit BURST = PAGE.limit("10/s");
    private static final Limit SUSTAINED = PAGE.limit("3000/10m");
    private static final Limit SUSTAINED_SMALL = PAGE.limit("3000/10m counter aligned");
    private static final Limit CLIENT = PAGE.limit("10000/15m counter aligned");
    private static final Limit API = PAGE.limit("500/1m counter aligned");

    @Test
    void bothAgreeOnAnyTraffic() {
        int allowed = 0;
        int denied = 0;
        for (Limit limit : List.of(API, SUSTAINED_SMALL, BURST.counter().alignedToClock())) {
            long window = limit.window().toMillis();
            for (int seed = 0; seed < 10; seed++) {
                FixedRate theirs = theirs(limit);
                Ours ours = new Ours(limit);
                for (long now : Traffic.of(seed, (int) (3 * limit.permits()), window, limit.permits(), false)) {
                    boolean here = ours.allows(KEY, now);
                    assertThat(theirs.allows(now))
                            .as("%s, seed %d at %d", limit, seed, now)
                            .isEqualTo(here);
                    allowed += here ? 1 : 0;
                    denied += here ? 0 : 1;
                }
            }
        }
        assertThat(allowed).isGreaterThan(10_000);
        assertThat(denied).isGreaterThan(10_000);
    }

    @Test
    void tenThousandInAQuarterOfAnHourAreTheSameInBoth() {
        FixedRate theirs = theirs(CLIENT);
        Ours ours = new Ours(CLIENT);
        int admitted = 0;
        for (long now = START + 7 * MINUTE; now < START + 40 * MINUTE; now += 50) {
            boolean here = ours.allows(KEY, now);
            assertThat(theirs.allows(now)).as("at %d", now).isEqualTo(here);
            admitted += here ? 1 : 0;
        }
        assertThat(admitted).isBetween(20_000, 30_000);
    }

    /** 400 in minute 22 and 250 in minute 23 are 350 at 23:45. */
    @Test
    void theExampleOfTheDocument() {
        FixedRate theirs = theirs(API);
        Ours ours = new Ours(API);
        for (int i = 0; i < 650; i++) {
            long now = START + (i < 400 ? 22 : 23) * MINUTE + (i < 400 ? i : 45 * SECOND - 1);
            assertThat(theirs.allows(now)).isTrue();
            assertThat(ours.allows(KEY, now)).isTrue();
        }
        long now = START + 23 * MINUTE + 45 * SECOND;
        assertThat(theirs.fetches(now).total()).isEqualTo(350);
        assertThat(ours.look(now, Charge.of(KEY)).limits().get(0).used()).isEqualTo(350);
        assertThat(theirs.allows(now)).isTrue();
        assertThat(ours.ask(now, Charge.of(KEY)).limits().get(0).used()).isEqualTo(351);
    }

    @Test
    void requestsThatFetchConcurrentlyAreAllAdmitted() {
        FixedRate theirs = theirs(API);
        for (int i = 0; i < 499; i++) {
            assertThat(theirs.allows(START + i)).isTrue();
        }
        List<FixedRate.Fetched> fetched = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            fetched.add(theirs.fetches(START + 500));
        }
        assertThat(fetched.stream().filter(theirs::increments)).hasSize(64);
    }

    @Test
    void oursAdmitsOneOfManyConcurrentRequestsForTheLastPermit() {
        try (Instances ours = new Instances(SUSTAINED)) {
            assertThat(ours.ask(KEY, 2_999).isAllowed()).isTrue();
            assertThat(ours.allowed(KEY, 64)).isEqualTo(1);
        }
    }

    /** If the longer window is checked first, it is charged for requests that the shorter one denies. */
    @Test
    void twoWindowsInSequenceChargeDeniedRequests() {
        FixedRate theirBurst = theirs(BURST);
        FixedRate theirSustained = theirs(SUSTAINED);
        Ours ours = new Ours(BURST, SUSTAINED);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        for (int i = 0; i < 3_000; i++) {
            long now = START + i / 4;
            there.add(theirSustained.allows(now) && theirBurst.allows(now), now);
            here.add(ours.allows(KEY, now), now);
        }
        assertThat(there.total()).isEqualTo(10);
        assertThat(here.total()).isEqualTo(10);
        for (long now = START + 2 * SECOND; now < START + 5 * MINUTE; now += 100) {
            there.add(theirSustained.allows(now) && theirBurst.allows(now), now);
            here.add(ours.allows(KEY, now), now);
        }
        assertThat(there.total()).isEqualTo(10);
        assertThat(here.total()).isGreaterThan(2_600);
    }

    @Test
    void tenASecondAndThreeThousandInTenMinutesHoldTogetherInAnyWindow() {
        Ours ours = new Ours(BURST, SUSTAINED);
        Admitted admitted = new Admitted();
        for (long now = START; now < START + 20 * MINUTE; now += 50) {
            admitted.add(ours.allows(KEY, now), now);
        }
        assertThat(admitted.mostIn(SECOND)).isEqualTo(10);
        assertThat(admitted.mostIn(10 * MINUTE)).isEqualTo(3_000);
    }

    /** The estimate assumes that the previous bucket was spread evenly; a log knows the instants. */
    @Test
    void aBurstAtTheEndOfABucketFadesTooEarly() {
        FixedRate theirs = theirs(API);
        Ours ours = new Ours(API);
        Ours log = new Ours(Limit.perMinute(500));
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        Admitted exact = new Admitted();
        for (long burst : new long[] {START + 59 * SECOND, START + 90 * SECOND}) {
            for (int i = 0; i < 500; i++) {
                there.add(theirs.allows(burst + i), burst + i);
                here.add(ours.allows(KEY, burst + i), burst + i);
                exact.add(log.allows(KEY, burst + i), burst + i);
            }
        }
        assertThat(there.mostIn(MINUTE)).isGreaterThanOrEqualTo(750);
        assertThat(here.mostIn(MINUTE)).isEqualTo(there.mostIn(MINUTE));
        assertThat(exact.mostIn(MINUTE)).isEqualTo(500);
    }

    private static FixedRate theirs(Limit limit) {
        return new FixedRate(limit.permits(), limit.window().toMillis());
    }
}
