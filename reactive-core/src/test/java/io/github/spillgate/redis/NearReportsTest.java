package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** How often two instances on one Redis report that a key is near its limit. */
class NearReportsTest extends ScriptedFixture {

    private static final int PERIODS = 1_000;
    private static final int KEYS = 4;
    private static final Limit QUOTA = Limit.daily(20).near(75);

    private final Random random = new Random(11);

    /** The keys that have reached the mark in the present period, also by a decision of which the reply is lost. */
    private final Set<String> reached = ConcurrentHashMap.newKeySet();

    /**
     * Half of the decisions are refunded, so that the usage crosses the mark again and again. With a fallback, the
     * clock stands still, because a deadline would have passed after a step, and there are other keys in place of
     * periods.
     *
     * @param lost how many of a hundred replies are lost
     * @param isGuarded whether the fallback decides if a reply is lost
     */
    @Thorough
    @ParameterizedTest
    @CsvSource({"0, false", "1, false", "1, true"})
    void aPeriodOfAQuotaIsReportedAtMostOnce(int lost, boolean isGuarded) {
        List<RateLimiter> limiters = List.of(limiter(lost, isGuarded), limiter(lost, isGuarded));
        int all = 0;
        int missed = 0;
        int again = 0;
        clock.set(clock.instant().truncatedTo(ChronoUnit.DAYS).toEpochMilli());
        for (int period = 0; period < PERIODS; period++) {
            if (!isGuarded) {
                pass(Duration.ofDays(1).toMillis());
            }
            Map<String, Integer> byRedis = new HashMap<>();
            Map<String, Integer> reports = new HashMap<>();
            reached.clear();
            for (int round = 0; round < 4; round++) {
                for (Decision decision : take(limiters, isGuarded ? period : 0)) {
                    decision.near().forEach(near -> {
                        reports.merge(near.key(), 1, Integer::sum);
                        byRedis.merge(near.key(), decision.source() == Source.REDIS ? 1 : 0, Integer::sum);
                    });
                }
            }
            assertThat(byRedis.values()).allSatisfy(times -> assertThat(times).isLessThanOrEqualTo(1));
            all += reached.size();
            Set<String> without = new HashSet<>(reached);
            without.removeAll(reports.keySet());
            missed += without.size();
            again += reports.values().stream().mapToInt(times -> times - 1).sum();
        }
        String what = "%d%% lost, %s: of %d, %d were not reported, and %d more than once"
                .formatted(lost, isGuarded ? "with a fallback" : "alone", all, missed, again);
        System.out.println("[spillgate] near: " + what);
        assertThat(all).as(what).isGreaterThan(PERIODS);
        assertThat(missed).as(what).isBetween(0, lost * all / 33);
        // In an outage, each instance reports by its own count.
        assertThat(isGuarded ? 0 : again).as(what).isZero();
    }

    private List<Decision> take(List<RateLimiter> limiters, int name) {
        List<Mono<Decision>> asked = new ArrayList<>();
        for (int i = 0; i < 24; i++) {
            Charge charge = Charge.of(name + "-" + random.nextInt(KEYS), QUOTA).permits(1 + random.nextInt(3));
            RateLimiter limiter = limiters.get(random.nextInt(2));
            boolean isRefunded = random.nextBoolean();
            asked.add(limiter.tryAcquire(charge)
                    .delayUntil(decision -> isRefunded ? limiter.refund(decision) : Mono.empty())
                    .onErrorComplete());
        }
        return Flux.fromIterable(asked)
                .flatMap(each -> each, asked.size())
                .collectList()
                .block();
    }

    private RateLimiter limiter(int lost, boolean isGuarded) {
        LimitStore lossy = new ForwardingLimitStore(scripted.store(client, keyspace.namespace(), false)) {
            @Override
            public Mono<StoreDecision> take(StoreRequest request) {
                return super.take(request).flatMap(decision -> {
                    decision.usages().stream()
                            .filter(usage -> decision.isCharged() && usage.used() >= QUOTA.nearMark())
                            .forEach(usage -> reached.add(usage.key()));
                    return isLost(lost)
                            ? Mono.error(new LimitStoreException(Kind.UNANSWERED, "no reply"))
                            : Mono.just(decision);
                });
            }
        };
        LimitStore used = isGuarded
                ? ResilientStore.builder(lossy).fallback(Fallback.local(1_000)).build()
                : new Unprotected(lossy);
        return RateLimiter.builder("near").store(used).build();
    }

    private synchronized boolean isLost(int ofHundred) {
        return random.nextInt(100) < ofHundred;
    }

    /** Each request is made when the usage is below the mark, and most of them cross it again. */
    @ParameterizedTest
    @ValueSource(strings = {"20/1h near=80%", "20/1h counter near=80%", "20/1h burst=20 near=80%"})
    void eachInstanceReportsALimitThatFadesOnceInSteadyTraffic(String text) {
        Limit limit = Limit.parse(text);
        Charge charge = Charge.of("k", limit);
        List<RateLimiter> limiters = List.of(limiter(0, false), limiter(0, false));
        int[] reports = new int[2];
        for (int i = 0; i < 80; i++) {
            long used;
            do {
                pass(60_000);
                used = limiters.get(0).peek(charge).block().limits().get(0).used();
            } while (used >= limit.nearMark());
            Decision decision = limiters.get(i % 2).tryAcquire(charge).block();
            reports[i % 2] += decision.near().size();
        }
        assertThat(reports).containsExactly(1, 1);
    }
}
