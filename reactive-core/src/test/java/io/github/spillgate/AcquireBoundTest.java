package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * No caller is denied that would have been served in time. Each scenario is repeated for each denied caller, which then
 * waits without a bound, and must be served later than its original longest wait.
 */
class AcquireBoundTest {

    private static final int NONE = -1;

    @Property(tries = 1_000)
    void deniedCallersWouldHaveWaitedLongerThanAllowed(@ForAll long seed) {
        Scenario scenario = new Scenario(new Random(seed));
        List<Caller> callers = scenario.run(NONE);
        for (int i = 0; i < callers.size(); i++) {
            Caller denied = callers.get(i);
            if (denied.decision.isAllowed()) {
                continue;
            }
            List<Caller> repeated = scenario.run(i);
            Caller patient = repeated.get(i);
            if (denied.before.stream().allMatch(j -> repeated.get(j).decision.isAllowed())) {
                assertThat(patient.grantedAfter())
                        .as("%s, which was denied: %s", patient.arrival, denied.decision)
                        .isGreaterThan(denied.arrival.patience);
            }
        }
    }

    /** An arrival of a caller at a time in milliseconds, with its cost for each of two keys. */
    private record Arrival(long at, long ofOne, long ofOther, long patience) {}

    private static final class Caller {

        private final Arrival arrival;
        private final long start;
        private final List<Integer> before = new ArrayList<>();
        private Decision decision;

        Caller(Arrival arrival, long start) {
            this.arrival = arrival;
            this.start = start;
        }

        long grantedAfter() {
            return decision.at().toEpochMilli() - start - arrival.at;
        }
    }

    private static final class Scenario {

        private final Limit limit;
        private final List<Arrival> arrivals = new ArrayList<>();
        private final boolean twoKeys;
        private final long toStore;
        private final long back;
        private final long disorder;

        Scenario(Random random) {
            int window = List.of(10, 50, 100).get(random.nextInt(3));
            Limit log = Limit.of(1 + random.nextInt(10), Duration.ofMillis(window));
            limit = switch (random.nextInt(5)) {
                case 0 -> log.counter();
                case 1 -> log.counter().alignedToClock();
                case 2 -> log.countingDenied();
                case 3 -> log.resolution(Duration.ofMillis(1 + random.nextInt(window)));
                default -> log;
            };
            twoKeys = random.nextBoolean();
            boolean near = random.nextInt(3) == 0;
            toStore = near ? 0 : random.nextInt(8);
            back = near ? 0 : 1 + random.nextInt(8);
            disorder = random.nextBoolean() ? 0 : random.nextLong();
            int permits = (int) limit.permits();
            long at = 0;
            for (int i = 0; i < 3 + random.nextInt(15); i++) {
                at += random.nextInt(3) == 0 ? 0 : random.nextInt(window / 2);
                arrivals.add(new Arrival(
                        at,
                        1L + random.nextInt(permits),
                        twoKeys ? random.nextInt(permits + 1) : 0,
                        random.nextInt(6 * window)));
            }
        }

        List<Caller> run(int patient) {
            List<Caller> callers = new ArrayList<>();
            try (VirtualTime time = new VirtualTime()) {
                RateLimiter limiter = RateLimiter.builder("test")
                        .store(distant(LocalStore.bounded(100, time)))
                        .limit(limit)
                        .clock(time)
                        .build();
                for (Arrival arrival : arrivals) {
                    int number = callers.size();
                    Caller caller = new Caller(arrival, time.millis());
                    callers.add(caller);
                    Duration patience = number == patient ? Duration.ofDays(1) : Duration.ofMillis(arrival.patience);
                    Schedulers.parallel()
                            .schedule(
                                    () -> limiter.acquire(charges(arrival), patience)
                                            .subscribe(decision -> {
                                                caller.decision = decision;
                                                for (int j = 0; j < number; j++) {
                                                    if (callers.get(j).decision == null) {
                                                        caller.before.add(j);
                                                    }
                                                }
                                            }),
                                    arrival.at,
                                    TimeUnit.MILLISECONDS);
                }
                for (int i = 0; i < 100_000 && callers.stream().anyMatch(one -> one.decision == null); i++) {
                    time.passMillis(1);
                }
                assertThat(callers).allMatch(one -> one.decision != null);
                assertNoWaiterIsLeft(limiter);
            }
            return callers;
        }

        private List<Charge> charges(Arrival arrival) {
            Charge one = Charge.of("one", arrival.ofOne);
            return twoKeys ? List.of(one, Charge.of("other", arrival.ofOther)) : List.of(one);
        }

        /** Returns a store with network delay. Its replies may overtake each other. */
        private LimitStore distant(LimitStore store) {
            if (toStore + back == 0) {
                return store;
            }
            Random delays = new Random(disorder);
            return new Unprotected(store) {
                @Override
                public Mono<StoreDecision> take(List<Claim> claims) {
                    return late(super.take(claims));
                }

                @Override
                public Mono<StoreDecision> peek(List<Claim> claims) {
                    return late(super.peek(claims));
                }

                private Mono<StoreDecision> late(Mono<StoreDecision> answer) {
                    long delay = disorder == 0 ? back : delays.nextInt((int) back + 5);
                    return Mono.delay(Duration.ofMillis(toStore)).then(answer).delayElement(Duration.ofMillis(delay));
                }
            };
        }
    }
}
