package io.github.spillgate;

import static io.github.spillgate.LineAssertions.assertNobodyIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
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
 * Nobody is denied who would have been served: everybody who was denied is let wait for ever when the same happens
 * again, and is served no earlier than he had been willing to wait for.
 */
class AcquireBoundTest {

    private static final int NOBODY = -1;

    @Property(tries = 1_000)
    void whoIsDeniedWouldHaveWaitedForTooLong(@ForAll long seed) {
        Scenario scenario = new Scenario(new Random(seed));
        List<Customer> customers = scenario.happen(NOBODY);
        for (int i = 0; i < customers.size(); i++) {
            Customer denied = customers.get(i);
            if (denied.decision.isAllowed()) {
                continue;
            }
            List<Customer> again = scenario.happen(i);
            Customer patient = again.get(i);
            if (denied.before.stream().allMatch(j -> again.get(j).decision.isAllowed())) {
                assertThat(patient.grantedAfter())
                        .as("%s, who was denied: %s", patient.arrival, denied.decision)
                        .isGreaterThan(denied.arrival.patience);
            }
        }
    }

    /** One who comes at some millisecond, and wants so much of each of two keys. */
    private record Arrival(long at, long ofOne, long ofOther, long patience) {}

    private static final class Customer {

        private final Arrival arrival;
        private final long start;
        private final List<Integer> before = new ArrayList<>();
        private Decision decision;

        Customer(Arrival arrival, long start) {
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
        private final long there;
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
            there = near ? 0 : random.nextInt(8);
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

        List<Customer> happen(int patient) {
            List<Customer> customers = new ArrayList<>();
            try (VirtualTime time = new VirtualTime()) {
                RateLimiter limiter = RateLimiter.builder("test")
                        .store(distant(LocalStore.bounded(100, time)))
                        .limit(limit)
                        .clock(time)
                        .build();
                for (Arrival arrival : arrivals) {
                    int number = customers.size();
                    Customer customer = new Customer(arrival, time.millis());
                    customers.add(customer);
                    Duration patience = number == patient ? Duration.ofDays(1) : Duration.ofMillis(arrival.patience);
                    Schedulers.parallel()
                            .schedule(
                                    () -> limiter.acquire(charges(arrival), patience)
                                            .subscribe(decision -> {
                                                customer.decision = decision;
                                                for (int j = 0; j < number; j++) {
                                                    if (customers.get(j).decision == null) {
                                                        customer.before.add(j);
                                                    }
                                                }
                                            }),
                                    arrival.at,
                                    TimeUnit.MILLISECONDS);
                }
                for (int i = 0; i < 100_000 && customers.stream().anyMatch(one -> one.decision == null); i++) {
                    time.passMillis(1);
                }
                assertThat(customers).allMatch(one -> one.decision != null);
                assertNobodyIsLeft(limiter);
            }
            return customers;
        }

        private List<Charge> charges(Arrival arrival) {
            Charge one = Charge.of("one").permits(arrival.ofOne);
            return twoKeys ? List.of(one, Charge.of("other").permits(arrival.ofOther)) : List.of(one);
        }

        /** Every question takes its time, and some answers overtake others. */
        private LimitStore distant(LimitStore store) {
            if (there + back == 0) {
                return store;
            }
            Random ways = new Random(disorder);
            return new Unprotected(store) {
                @Override
                public Mono<Decision> take(List<Claim> claims) {
                    return late(super.take(claims));
                }

                @Override
                public Mono<Decision> peek(List<Claim> claims) {
                    return late(super.peek(claims));
                }

                private Mono<Decision> late(Mono<Decision> answer) {
                    long way = disorder == 0 ? back : ways.nextInt((int) back + 5);
                    return Mono.delay(Duration.ofMillis(there)).then(answer).delayElement(Duration.ofMillis(way));
                }
            };
        }
    }
}
