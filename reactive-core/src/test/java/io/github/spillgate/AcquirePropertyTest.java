package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.DecidedClaims;
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
 * Random sequences of arrivals, cancellations, replies in any order, refunds, errors of the store and the passing of
 * time. The invariants of the wait queue hold after each step and at the end.
 */
class AcquirePropertyTest {

    private static final int STEPS = 120;

    @Property(tries = 1_500)
    void noPermitIsLostNoWaiterIsForgottenAndNoQueueIsLeft(@ForAll long seed) {
        run(new Random(seed), false);
    }

    @Property(tries = 500)
    void noWaiterIsForgottenAndNoQueueIsLeftIfTheStoreFails(@ForAll long seed) {
        run(new Random(seed), true);
    }

    private static void run(Random random, boolean failing) {
        Hooks.onErrorDropped(error -> assertThat(failing).isTrue()); // a refund for a cancelled waiter may fail
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
        private final RateLimiter otherLimiter;
        private final List<Caller> callers = new ArrayList<>();
        private final List<Decision> ofOtherLimiter = new ArrayList<>();
        private final List<Decision> toRefund = new ArrayList<>();

        Run(Random random, boolean failing, VirtualTime time) {
            this.random = random;
            this.failing = failing;
            this.time = time;
            window = Duration.ofMillis(random.nextInt(3) == 0 ? 3_600_000 : 50);
            Limit log = Limit.of(1 + random.nextInt(8), window);
            limit = switch (random.nextInt(5)) {
                case 0 -> log.counter();
                case 1 -> log.countingDenied();
                case 2 -> log.burst(1 + random.nextInt(8));
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
            otherLimiter = RateLimiter.builder("test").store(store).limit(limit).build();
        }

        void run() {
            for (int step = 0; step < STEPS; step++) {
                step();
            }
            settle();
            for (Caller caller : callers) {
                assertThat(caller.ended).as("%s", caller).isTrue();
            }
            assertNoWaiterIsLeft(limiter);
            if (!failing && isExact()) {
                long used = otherLimiter.peek("a").block().limits().get(0).used();
                assertThat(used).as("only granted permits are charged").isEqualTo(stillUsed());
            }
        }

        private boolean isExact() {
            // A refund of a bucket may return less than was taken.
            return limit instanceof Limit.Log
                    ? !limit.isCountingDenied()
                    : limit instanceof Limit.Counter && window.toHours() == 1;
        }

        private void step() {
            held.decidesEarly(random.nextBoolean());
            switch (random.nextInt(failing ? 11 : 10)) {
                case 0, 1, 2 -> callers.add(new Caller());
                case 3 -> withAnyCaller(Caller::cancel);
                case 4, 5, 6 -> answer();
                case 7, 8 -> time.passMillis(random.nextInt(30));
                case 9 -> changeCount();
                default -> fail();
            }
            assertThat(limiter.queues().reserved()).isLessThanOrEqualTo(20);
            if (held.held() == 0) {
                assertFirstWaiterMustWait();
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

        /** Changes the count in another process, or in this one, which wakes the waiters. */
        private void changeCount() {
            long permits = 1L + random.nextInt((int) limit.capacity());
            switch (random.nextInt(3)) {
                case 0 -> otherLimiter.tryAcquire(Charge.of("a", permits)).subscribe(ofOtherLimiter::add);
                case 1 ->
                    limiter.tryAcquire(Charge.of("a", permits))
                            .subscribe(
                                    toRefund::add, error -> assertThat(failing).isTrue());
                default -> {
                    if (!toRefund.isEmpty()) {
                        limiter.refund(toRefund.remove(random.nextInt(toRefund.size())))
                                .subscribe(
                                        nothing -> {},
                                        error -> assertThat(failing).isTrue());
                    }
                }
            }
        }

        private void withAnyCaller(Consumer<Caller> what) {
            if (!callers.isEmpty()) {
                what.accept(callers.get(random.nextInt(callers.size())));
            }
        }

        /** Checks that the first waiter does not wait although its permits are available. */
        private void assertFirstWaiterMustWait() {
            callers.stream().filter(caller -> !caller.ended).findFirst().ifPresent(first -> {
                Decision now = otherLimiter.peek(Charge.of("a", first.permits)).block();
                assertThat(now.isAllowed())
                        .as("%s waits although its permits are available: %s", first, now)
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
            List<Decision> decisions = new ArrayList<>(ofOtherLimiter);
            decisions.addAll(toRefund);
            callers.stream()
                    .filter(caller -> caller.decision != null)
                    .map(caller -> caller.decision)
                    .forEach(decisions::add);
            return decisions.stream()
                    .filter(Decision::isCharged)
                    .filter(decision -> decision.at().plus(window).plusMillis(1).isAfter(time.instant()))
                    .mapToLong(decision -> DecidedClaims.of(decision).get(0).permits())
                    .sum();
        }

        private final class Caller extends BaseSubscriber<Decision> {

            private final long permits = 1L + random.nextInt((int) limit.capacity());
            private final long patience = random.nextInt(400);
            private boolean ended;
            private Decision decision;

            Caller() {
                limiter.acquire(List.of(Charge.of("a", permits)), Duration.ofMillis(patience))
                        .subscribe(this);
            }

            @Override
            protected void hookOnNext(Decision value) {
                assertThat(ended).as("one decision only").isFalse();
                decision = value;
                ended = true;
                if (value.isAllowed()) {
                    assertIsFirst();
                }
            }

            /** Checks that all earlier waiters have ended. */
            private void assertIsFirst() {
                for (Caller earlier : callers) {
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
                return "caller " + callers.indexOf(this) + " for " + permits + " within " + patience + " ms";
            }
        }
    }
}
