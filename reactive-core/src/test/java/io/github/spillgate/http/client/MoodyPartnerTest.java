package io.github.spillgate.http.client;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.JavaProcess;
import io.github.spillgate.testkit.MoodyPartner;
import io.github.spillgate.testkit.MoodyPartner.Arrival;
import io.github.spillgate.testkit.MoodyPartner.Refusal;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Two instances with 200 callers send up to 20 requests a second to a partner that accepts 10. Once a pause is in
 * Redis, no instance gets a permit before its end.
 */
class MoodyPartnerTest {

    private static final String LIMIT = "20/s burst=1";

    private final MoodyPartner partner = new MoodyPartner(10);
    private final String name = "test-" + UUID.randomUUID();
    private final RedisURI redis = RedisForTests.first().uri();

    @AfterEach
    void close() {
        partner.close();
    }

    @Test
    void noInstanceGetsAPermitDuringAPause() {
        try (PartnerCallers one = PartnerCallers.of(redis, name, LIMIT, 100, partner.uri("/"));
                PartnerCallers other = PartnerCallers.of(redis, name, LIMIT, 100, partner.uri("/"))) {
            await().atMost(Duration.ofMinutes(1)).until(() -> partner.refusals().size() >= 3);
            partner.restart();
            int before = partner.arrivals().size();
            await().atMost(Duration.ofMinutes(1)).until(() -> partner.arrivals().size() > before + 12);
            assertNoGrantDuringAPause(all(one.grants, other.grants), all(one.pauses, other.pauses), partner.refusals());
        }
    }

    @Test
    @Thorough
    void noProcessGetsAPermitDuringAPause() throws Exception {
        List<JavaProcess> processes = new ArrayList<>();
        try {
            for (int i = 0; i < 2; i++) {
                processes.add(
                        JavaProcess.start(PartnerCallers.class, redis.toURI(), name, LIMIT, 100, partner.uri("/")));
            }
            for (JavaProcess process : processes) {
                process.awaitReady();
            }
            for (int refusals = 8; refusals <= 40; refusals += 8) {
                int until = refusals;
                await().atMost(Duration.ofMinutes(3))
                        .until(() -> partner.refusals().size() >= until);
                if (refusals % 16 == 0) {
                    partner.restart();
                } else {
                    partner.stall(Duration.ofSeconds(1));
                }
            }
            List<Long> grants = new ArrayList<>();
            List<Long> pauses = new ArrayList<>();
            for (JavaProcess process : processes) {
                process.writeLine("end");
                for (String line = process.readLine(); line != null; line = process.readLine()) {
                    long at = Long.parseLong(line.substring(line.indexOf(' ') + 1));
                    if (line.startsWith("grant")) {
                        grants.add(at);
                    } else if (line.startsWith("pause")) {
                        pauses.add(at);
                    } else {
                        break;
                    }
                }
            }
            assertNoGrantDuringAPause(grants, pauses, partner.refusals());
        } finally {
            processes.forEach(JavaProcess::close);
        }
    }

    private void assertNoGrantDuringAPause(List<Long> grants, List<Long> pauses, List<Refusal> refusals) {
        int inFlight = 0;
        int mostInFlight = 0;
        long longestTrip = 0;
        for (Refusal refusal : refusals) {
            int refused = (int) partner.arrivals().stream()
                    .filter(one -> one.status() == 429 && one.at() >= refusal.from() && one.at() < refusal.until())
                    .count();
            inFlight += refused - 1;
            mostInFlight = Math.max(mostInFlight, refused - 1);
            long known = pauses.stream()
                    .filter(at -> at >= refusal.from())
                    .mapToLong(at -> at)
                    .min()
                    .orElse(Long.MAX_VALUE);
            longestTrip = known == Long.MAX_VALUE ? longestTrip : Math.max(longestTrip, known - refusal.from());
            assertThat(grants.stream().filter(at -> at > known && at < refusal.until()))
                    .as("grants during %s, which was known at %d", refusal, known)
                    .isEmpty();
            // Each refused request had its permit before the pause was known.
            assertThat((long) refused)
                    .isLessThanOrEqualTo(1
                            + grants.stream()
                                    .filter(at -> at >= refusal.from() - 5_000 && at <= known)
                                    .count());
        }
        long accepted =
                partner.arrivals().stream().filter(one -> one.status() == 200).count();
        System.out.printf(
                "[spillgate] moody partner: %d refusals, %d accepted, %d refused beyond the first of each refusal"
                        + " (at most %d at once), pause in Redis after at most %d ms%n",
                refusals.size(), accepted, inFlight, mostInFlight, longestTrip);
        assertThat(partner.arrivals()).extracting(Arrival::method).containsOnly("GET");
    }

    private static List<Long> all(Collection<Long> one, Collection<Long> other) {
        List<Long> all = new ArrayList<>(one);
        all.addAll(other);
        return all;
    }

    /** By Redis's clock. The bucket alone bounds each tenth; the number of requests that arrive is measured. */
    @Test
    @Thorough
    void afterAPauseRequestsAreSpreadEvenly() {
        List<Long> most = new ArrayList<>();
        List<Long> mostArrived = new ArrayList<>();
        try (MoodyPartner patient = new MoodyPartner(1_000_000);
                PartnerCallers one = PartnerCallers.of(redis, name, "100/s burst=1", 100, patient.uri("/"));
                PartnerCallers other = PartnerCallers.of(redis, name, "100/s burst=1", 100, patient.uri("/"))) {
            for (int round = 0; round < 20; round++) {
                one.limiter.pause("partner", Duration.ofMillis(500)).block();
                long end = System.currentTimeMillis() + 500;
                await().atMost(Duration.ofMinutes(1)).until(() -> System.currentTimeMillis() > end + 1_200);
                List<Long> grants = all(one.grants, other.grants);
                long first = grants.stream()
                        .filter(at -> at > end - 400)
                        .min(Long::compare)
                        .orElseThrow();
                most.add(mostInATenth(grants, first));
                mostArrived.add(mostInATenth(
                        patient.arrivals().stream().map(Arrival::at).toList(), first));
            }
        }
        most.sort(Long::compare);
        mostArrived.sort(Long::compare);
        System.out.printf(
                "[spillgate] after a pause at 100/s, most in a tenth of the first second: granted %s, arrived %s%n",
                most, mostArrived);
        assertThat(most.get(10)).isLessThanOrEqualTo(12);
    }

    private static long mostInATenth(List<Long> times, long first) {
        return IntStream.range(0, 10)
                .mapToLong(tenth -> times.stream()
                        .filter(at -> at >= first + tenth * 100L && at < first + (tenth + 1) * 100L)
                        .count())
                .max()
                .orElseThrow();
    }
}
