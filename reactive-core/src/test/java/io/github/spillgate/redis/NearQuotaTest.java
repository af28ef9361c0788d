package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;

/** A quota is reported as near by one decision of all limiters in each period, in each store. */
class NearQuotaTest extends ScriptedFixture {

    private static final Instant BOUNDARY = Instant.parse("2026-10-01T00:00:00Z");
    private static final Limit PLAN = Limit.daily(10).near(75);

    @BeforeEach
    void begin() {
        at(BOUNDARY.plusSeconds(1));
    }

    /** Returns a limiter of another process, but for a store in this one. */
    private RateLimiter limiter(String kind, Limit limit) {
        return RateLimiter.builder("quota")
                .store(new Unprotected(stored(kind)))
                .limit(limit)
                .build();
    }

    private void at(Instant time) {
        clock.set(time.toEpochMilli());
        scripted.show(clock);
    }

    private static List<Integer> reporting(List<Decision> decisions) {
        return IntStream.range(0, decisions.size())
                .filter(i -> !decisions.get(i).near().isEmpty())
                .boxed()
                .toList();
    }

    private static List<Decision> take(int times, RateLimiter... limiters) {
        return IntStream.range(0, times)
                .mapToObj(i -> limiters[i % limiters.length].tryAcquire("k").block())
                .toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void theDecisionThatReachesTheMarkReportsIt(String kind) {
        List<Decision> decisions = take(12, limiter(kind, PLAN), limiter(kind, PLAN));
        assertThat(reporting(decisions)).containsExactly(7);
        Usage near = decisions.get(7).near().get(0);
        assertThat(near.key()).isEqualTo("k");
        assertThat(near.limit()).isEqualTo(PLAN);
        assertThat(near.used()).isEqualTo(8);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void theNextPeriodIsReportedAgain(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        assertThat(reporting(take(10, limiter))).hasSize(1);
        at(BOUNDARY.plus(Duration.ofDays(1)));
        assertThat(reporting(take(10, limiter))).containsExactly(7);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aRefundLetsNoneReportAgain(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        List<Decision> decisions = take(8, limiter);
        assertThat(reporting(decisions)).containsExactly(7);
        decisions.forEach(decision -> limiter.refund(decision).block());
        assertThat(reporting(take(10, limiter(kind, PLAN)))).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void afterAResetItIsReportedAgain(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        take(10, limiter);
        limiter.reset("k").block();
        assertThat(reporting(take(10, limiter))).containsExactly(7);
    }

    /** Requests that are sent together are one group in Redis, and all of them have its reply. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void oneOfManyRequestsAtOnceReports(String kind) {
        RateLimiter limiter = limiter(kind, Limit.daily(100).near(33));
        List<Decision> decisions = Flux.range(0, 150)
                .flatMap(i -> limiter.tryAcquire(Charge.of("k", 2)), 256)
                .collectList()
                .block();
        assertThat(decisions.stream().filter(Decision::isAllowed)).hasSize(50);
        assertThat(decisions.stream().flatMap(decision -> decision.near().stream()))
                .singleElement()
                .satisfies(near -> assertThat(near.used()).isEqualTo(34));
    }

    /** The settled cost is no decision. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void afterASettlementTheNextAllowedDecisionReports(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        Decision first = limiter.tryAcquire("k").block();
        limiter.settle(first, 8).block();
        assertThat(limiter.tryAcquire(Charge.of("k", 5)).block().near()).isEmpty();
        List<Decision> next = take(2, limiter);
        assertThat(reporting(next)).containsExactly(0);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aPeekReportsNothing(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        take(7, limiter);
        assertThat(limiter.peek("k").block().near()).isEmpty();
        assertThat(reporting(take(1, limiter))).hasSize(1);
        assertThat(limiter.peek("k").block().near()).isEmpty();
    }

    /** With fewer permits, the usage is above the mark before the decision. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aMarkThatWasLoweredIsReportedByTheNextDecision(String kind) {
        take(5, limiter(kind, PLAN));
        RateLimiter fewer = limiter(kind, Limit.daily(10).near(20));
        List<Decision> decisions = Flux.range(0, 3)
                .flatMap(i -> fewer.tryAcquire("k"), 3)
                .collectList()
                .block();
        assertThat(reporting(decisions)).hasSize(1);
    }
}
