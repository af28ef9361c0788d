package io.github.spillgate;

import static io.github.spillgate.LineAssertions.assertNobodyIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Hooks;

/**
 * Whatever comes in whatever order, on a store whose answers come late and in any order: somebody arrives, goes, is
 * answered, time passes, permits are given back, the store fails. What has to hold then, holds.
 */
class AcquirePropertyTest {

    private static final int STEPS = 120;

    @Property(tries = 1_500)
    void noPermitIsLostNobodyIsForgottenAndNoLineIsLeft(@ForAll long seed) {
        run(new Random(seed), false);
    }

    @Property(tries = 500)
    void nobodyIsForgottenAndNoLineIsLeftAlsoWhereTheStoreFails(@ForAll long seed) {
        run(new Random(seed), true);
    }

    private static void run(Random random, boolean failing) {
        Hooks.onErrorDropped(
                error -> assertThat(failing).isTrue()); // of what was to be given back for one who has gone
        try (VirtualTime time = new VirtualTime()) {
            new Run(random, failing, time).run();
        } finally {
            Hooks.resetOnErrorDropped();
        }
    }

    private static final class Run {

        private final Random random;
        private final boolean failing;
        private final VirtualTime time;
        private final Duration window;
        private final Limit limit;
        private final LocalStore store;
        private final HeldStore held;
        private final RateLimiter limiter;
        private final RateLimiter elsewhere;
        private final List<Customer> customers = new ArrayList<>();
        private final List<Decision> ofOthers = new ArrayList<>();
        private final List<Decision> toGiveBack = new ArrayList<>();

        Run(Random random, boolean failing, VirtualTime time) {
            this.random = random;
            this.failing = failing;
            this.time = time;
            window = Duration.ofMillis(random.nextInt(3) == 0 ? 3_600_000 : 50);
            Limit log = Limit.of(1 + random.nextInt(8), window);
            limit = switch (random.nextInt(4)) {
                case 0 -> log.counter();
                case 1 -> log.countingDenied();
                default -> log;
            };
            store = LocalStore.bounded(100, time);
            held = new HeldStore(store);
            limiter = RateLimiter.builder("test")
                    .store(held)
                    .limit(limit)
                    .waiters(20, 20)
                    .clock(time)
                    .build();
            elsewhere = RateLimiter.builder("test").store(store).limit(limit).build();
        }

        void run() {
            for (int step = 0; step < STEPS; step++) {
                step();
            }
            settle();
            for (Customer customer : customers) {
                assertThat(customer.ended).as("%s", customer).isTrue();
            }
            assertNobodyIsLeft(limiter);
            if (!failing && isCountedByTheHit()) {
                long used = elsewhere.peek("a").block().limits().get(0).used();
                assertThat(used).as("what is charged is what somebody has").isEqualTo(stillUsed());
            }
        }

        private boolean isCountedByTheHit() {
            return !limit.isCountingDenied() && (limit.algorithm() == Algorithm.LOG || window.toHours() == 1);
        }

        private void step() {
            held.decidesEarly(random.nextBoolean());
            switch (random.nextInt(failing ? 11 : 10)) {
                case 0, 1, 2 -> customers.add(new Customer());
                case 3 -> someCustomer(Customer::cancel);
                case 4, 5, 6 -> answer();
                case 7, 8 -> time.passMillis(random.nextInt(30));
                case 9 -> changeElsewhere();
                default -> fail();
            }
            assertThat(limiter.queues().reserved()).isLessThanOrEqualTo(20);
            if (held.held() == 0) {
                nobodyWaitsForWhatIsThere();
            }
        }

        private void answer() {
            if (held.held() > 0) {
                held.answer(random.nextInt(held.held()));
            }
        }

        private void fail() {
            if (held.held() > 0) {
                held.fail(random.nextInt(held.held()));
            }
        }

        /** What another process does, of which this one is not told; or this one does it, and wakes those who wait. */
        private void changeElsewhere() {
            long permits = 1L + random.nextInt((int) limit.permits());
            switch (random.nextInt(3)) {
                case 0 -> elsewhere.tryAcquire("a", permits).subscribe(ofOthers::add);
                case 1 ->
                    limiter.tryAcquire("a", permits)
                            .subscribe(
                                    toGiveBack::add,
                                    error -> assertThat(failing).isTrue());
                default -> {
                    if (!toGiveBack.isEmpty()) {
                        limiter.refund(toGiveBack.remove(random.nextInt(toGiveBack.size())))
                                .subscribe(
                                        nothing -> {},
                                        error -> assertThat(failing).isTrue());
                    }
                }
            }
        }

        private void someCustomer(Consumer<Customer> what) {
            if (!customers.isEmpty()) {
                what.accept(customers.get(random.nextInt(customers.size())));
            }
        }

        /** No permit lies idle while somebody waits for longer than his retry-after says. */
        private void nobodyWaitsForWhatIsThere() {
            customers.stream().filter(customer -> !customer.ended).findFirst().ifPresent(first -> {
                Decision now =
                        elsewhere.peek(Charge.of("a").permits(first.permits)).block();
                assertThat(now.isAllowed())
                        .as("%s waits for what is there: %s", first, now)
                        .isFalse();
            });
        }

        private void settle() {
            for (int i = 0; i < 2_000 && (held.held() > 0 || limiter.queues().size() > 0); i++) {
                held.answerAll();
                time.passMillis(5);
            }
            held.answerAll();
        }

        private long stillUsed() {
            List<Decision> decisions = new ArrayList<>(ofOthers);
            decisions.addAll(toGiveBack);
            customers.stream()
                    .filter(customer -> customer.decision != null)
                    .map(customer -> customer.decision)
                    .forEach(decisions::add);
            return decisions.stream()
                    .filter(Decision::isCharged)
                    .filter(decision -> decision.at().plus(window).plusMillis(1).isAfter(time.instant()))
                    .mapToLong(decision -> decision.limits().get(0).claim().permits())
                    .sum();
        }

        private final class Customer extends BaseSubscriber<Decision> {

            private final long permits = 1L + random.nextInt((int) limit.permits());
            private final long patience = random.nextInt(400);
            private boolean ended;
            private Decision decision;

            Customer() {
                limiter.acquire("a", permits, Duration.ofMillis(patience)).subscribe(this);
            }

            @Override
            protected void hookOnNext(Decision value) {
                assertThat(ended).as("answered once").isFalse();
                decision = value;
                ended = true;
                if (value.isAllowed()) {
                    inTurn();
                }
            }

            /** Whoever is served is the first of those who are waiting. */
            private void inTurn() {
                for (Customer earlier : customers) {
                    if (earlier == this) {
                        return;
                    }
                    assertThat(earlier.ended).as("%s before %s", this, earlier).isTrue();
                }
            }

            @Override
            protected void hookOnError(Throwable throwable) {
                ended = true;
            }

            @Override
            protected void hookOnCancel() {
                ended = true;
            }

            @Override
            public String toString() {
                return "customer " + customers.indexOf(this) + " for " + permits + " within " + patience + " ms";
            }
        }
    }
}
