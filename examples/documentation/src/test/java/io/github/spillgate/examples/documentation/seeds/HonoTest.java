package io.github.spillgate.examples.documentation.seeds;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.ClientAddress;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * The pipelined sorted set for Hono, on a real Redis at the instants of the test, compared with the same limit here.
 */
class HonoTest {

    private static final long SECOND = 1_000;
    private static final long START = Traffic.START;
    private static final String IP = "203.0.113.7";

    private static final Page PAGE = Page.of("hono.md");
    private static final Limit LIMIT = PAGE.limit("10/1m");
    private static final Limit SAME = PAGE.limit("10/1m counting-denied");
    private static final long WINDOW = LIMIT.window().toMillis();

    private static RedisClient client;
    private static StatefulRedisConnection<String, String> connection;
    private static StatefulRedisConnection<String, String> another;

    private final Hono theirs = new Hono(connection, LIMIT.permits(), LIMIT.window());

    @BeforeAll
    static void connect() {
        client = RedisClient.create(RedisForTests.first().uri());
        connection = client.connect();
        another = client.connect();
    }

    @AfterAll
    static void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /**
     * Ours has a window one millisecond shorter, because theirs ends at the start of a millisecond and ours at its end.
     */
    @Test
    void bothAgreeOnAnyTrafficIfOursCountsDeniedRequests() {
        Limit shorter = Limit.of(SAME.permits(), SAME.window().minusMillis(1)).countingDenied();
        int allowed = 0;
        int denied = 0;
        for (int seed = 0; seed < 30; seed++) {
            Ours ours = new Ours(shorter);
            String key = "seed " + seed;
            for (long now : Traffic.of(seed, 80, WINDOW, SAME.permits(), false)) {
                boolean here = ours.allows(key, now);
                assertThat(theirs.ask(key, now).allowed())
                        .as("%s at %d", key, now)
                        .isEqualTo(here);
                allowed += here ? 1 : 0;
                denied += here ? 0 : 1;
            }
        }
        assertThat(allowed).isGreaterThan(300);
        assertThat(denied).isGreaterThan(300);
    }

    @Test
    void theirWindowIsOneMillisecondTooShort() {
        Ours ours = new Ours(LIMIT);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        for (int i = 0; i < 11; i++) {
            long now = i < 10 ? START : START + WINDOW;
            there.add(theirs.ask(IP, now).allowed(), now);
            here.add(ours.allows(IP, now), now);
        }
        assertThat(there.mostIn(WINDOW)).isEqualTo(11);
        assertThat(here.mostIn(WINDOW)).isEqualTo(10);
        assertThat(ours.allows(IP, START + WINDOW + 1)).isTrue();
    }

    @Test
    void rejectedRequestsAreStored() {
        LongStream.range(0, 10).forEach(i -> theirs.ask(IP, START + i));
        long before = theirs.memory(IP);
        LongStream.range(10, 1_010)
                .forEach(i -> assertThat(theirs.ask(IP, START + i).allowed()).isFalse());
        assertThat(theirs.stored(IP)).isEqualTo(1_010);
        assertThat(theirs.memory(IP)).isGreaterThan(100_000).isGreaterThan(50 * before);
        for (Limit limit : List.of(LIMIT, SAME)) {
            try (Instances ours = new Instances(limit)) {
                assertThat(ours.allowed(IP, 1_010)).isEqualTo(10);
                assertThat(ours.memory()).as(limit.toString()).isLessThan(500);
            }
        }
    }

    /** A retry after the delay is counted too, so it is denied again. */
    @Test
    void aClientThatObeysRetryAfterIsNeverAdmittedAgain() {
        Ours ours = new Ours(LIMIT);
        long now = START;
        for (int i = 0; i < 14; i++, now += SECOND) {
            theirs.ask(IP, now);
            ours.allows(IP, now);
        }
        long last = now;
        Hono.Answer answer = theirs.ask(IP, now);
        assertThat(answer.retryAfterSeconds()).isEqualTo(46);
        for (int times = 0; now < START + 3_600 * SECOND; times++) {
            assertThat(answer.allowed()).as("the %d. time", times).isFalse();
            now += answer.retryAfterSeconds() * SECOND;
            answer = theirs.ask(IP, now);
        }
        Decision denied = ours.ask(last, Charge.of(IP));
        long wait = denied.retryAfter().orElseThrow().toMillis();
        assertThat(wait).isEqualTo(START + WINDOW + 1 - last);
        assertThat(ours.allows(IP, last + wait - 1)).isFalse();
        assertThat(ours.allows(IP, last + wait)).isTrue();
    }

    @Test
    void aClientWithSteadyRequestsIsNeverAdmittedAgain() {
        Ours ours = new Ours(LIMIT);
        Ours countingDenied = new Ours(SAME);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        Admitted onPurpose = new Admitted();
        for (long now = START; now < START + 600 * SECOND; now += 5 * SECOND) {
            there.add(theirs.ask(IP, now).allowed(), now);
            here.add(ours.allows(IP, now), now);
            onPurpose.add(countingDenied.allows(IP, now), now);
        }
        assertThat(there.total()).isEqualTo(10);
        assertThat(here.total()).isGreaterThan(90);
        assertThat(onPurpose.total()).isEqualTo(10);
    }

    @Test
    void twoConcurrentRequestsForTheLastPermitAreBothDenied() {
        Hono other = theirs.over(another);
        LongStream.range(0, 9).forEach(i -> theirs.ask(IP, START + i));
        theirs.adds(IP, START + 9);
        other.adds(IP, START + 9);
        assertThat(theirs.counts(IP, START + 9).allowed()).isFalse();
        assertThat(other.counts(IP, START + 9).allowed()).isFalse();
    }

    @Test
    void oursAdmitsOneOfManyConcurrentRequestsForTheLastPermit() {
        try (Instances ours = new Instances(LIMIT)) {
            assertThat(ours.ask(IP, 9).isAllowed()).isTrue();
            assertThat(ours.allowed(IP, 64)).isEqualTo(1);
        }
    }

    /** Ours reads the time of Redis in the script, so the clocks of instances do not matter. */
    @Test
    void anInstanceWithAFastClockForgetsRequestsOfOthers() {
        int admitted = 0;
        for (int i = 0; i < 10; i++) {
            admitted += theirs.ask(IP, START + i).allowed() ? 1 : 0;
        }
        for (int i = 0; i < 10; i++) {
            admitted += theirs.ask(IP, START + WINDOW + SECOND + i).allowed() ? 1 : 0;
        }
        assertThat(admitted).isEqualTo(20);
        try (Instances ours = new Instances(LIMIT)) {
            assertThat(ours.allowed(IP, 20)).isEqualTo(10);
        }
    }

    /** A proxy appends to the header, after the value that the client sent. */
    @Test
    void aClientThatForgesTheHeaderIsANewClientEachTime() {
        ClientAddress ours = ClientAddress.ofXForwardedFor("10.0.0.0/8");
        Set<String> there = new HashSet<>();
        Set<String> here = new HashSet<>();
        for (int i = 0; i < 100; i++) {
            String header = "198.51.100." + i + ", " + IP;
            there.add(header.split(",", -1)[0].trim());
            here.add(ours.resolve("10.0.0.1", name -> List.of(header)).orElseThrow());
        }
        assertThat(there).hasSize(100);
        assertThat(here).containsExactly(IP);
        assertThat(ours.resolve(IP, name -> List.of())).contains(IP);
    }
}
