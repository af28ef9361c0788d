package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.tck.PublisherVerification;
import org.reactivestreams.tck.SubscriberBlackboxVerification;
import org.reactivestreams.tck.TestEnvironment;
import org.testng.SkipException;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/** The rules of Reactive Streams, checked by their TCK, for a throttle as a publisher and as a subscriber. */
class ThrottleRulesTest {

    private static final int WAIT_MILLIS = 2_000;
    private static final int NOTHING_MILLIS = 50;
    private static final int COLLECTED_MILLIS = 2_000;
    private static final int AT_ONCE = 8;
    private static final Scheduler CHECKS =
            Schedulers.newBoundedElastic(AT_ONCE, Integer.MAX_VALUE, "throttle-rules", 1, true);

    @TestFactory
    Stream<DynamicTest> whereAThrottleIsAPublisherThatNeverHasToWait() {
        return rules(
                PublisherVerification.class,
                () -> new AsPublisher(Limit.perSecond(10_000_000).counter()));
    }

    @TestFactory
    Stream<DynamicTest> whereAThrottleIsAPublisherThatHasToWait() {
        return rules(
                PublisherVerification.class,
                () -> new AsPublisher(Limit.of(40, Duration.ofMillis(20)).counter()));
    }

    @TestFactory
    Stream<DynamicTest> whereAThrottleIsASubscriber() {
        return rules(SubscriberBlackboxVerification.class, AsSubscriber::new);
    }

    @Test
    void theTckHasRules() {
        assertThat(whereAThrottleIsAPublisherThatNeverHasToWait().count()).isGreaterThan(30);
        assertThat(whereAThrottleIsASubscriber().count()).isGreaterThan(10);
    }

    /**
     * The first test starts all checks, {@value #AT_ONCE} at a time, because some only wait for {@value #WAIT_MILLIS}
     * ms.
     */
    private static Stream<DynamicTest> rules(Class<?> kit, Supplier<?> verification) {
        Map<String, Mono<Optional<Throwable>>> outcomes = new LinkedHashMap<>();
        for (Method method : kit.getMethods()) {
            if (method.getName().matches("(required|optional|stochastic)_.*")) {
                outcomes.put(
                        method.getName(),
                        Mono.fromCallable(() -> outcomeOf(method, verification.get()))
                                .subscribeOn(CHECKS)
                                .cache());
            }
        }
        return outcomes.entrySet().stream()
                .map(rule -> DynamicTest.dynamicTest(rule.getKey(), () -> {
                    outcomes.values().forEach(Mono::subscribe);
                    Optional<Throwable> failure = rule.getValue().block();
                    if (failure.isPresent()) {
                        throw failure.get();
                    }
                }));
    }

    private static Optional<Throwable> outcomeOf(Method rule, Object verification) {
        try {
            check(rule, verification);
            return Optional.empty();
        } catch (Throwable e) {
            return Optional.of(e);
        }
    }

    private static void check(Method rule, Object verification) throws Throwable {
        boolean subscriber = verification instanceof SubscriberBlackboxVerification;
        try {
            if (subscriber) {
                call(verification, "startPublisherExecutorService");
            }
            call(verification, "setUp");
            rule.invoke(verification);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof SkipException skipped) {
                Assumptions.abort(skipped.getMessage());
            }
            throw e.getCause();
        } finally {
            if (subscriber) {
                call(verification, "shutdownPublisherExecutorService");
            }
        }
    }

    private static void call(Object verification, String method) throws ReflectiveOperationException {
        verification.getClass().getMethod(method).invoke(verification);
    }

    private static RateLimiter limiter(Limit limit) {
        return RateLimiter.builder("test")
                .store(LocalStore.bounded(100))
                .limit(limit)
                .build();
    }

    /** The throttle as a publisher. */
    public static final class AsPublisher extends PublisherVerification<Integer> {

        private final RateLimiter limiter;

        AsPublisher(Limit limit) {
            super(new TestEnvironment(WAIT_MILLIS, NOTHING_MILLIS), COLLECTED_MILLIS);
            limiter = limiter(limit);
        }

        @Override
        public Publisher<Integer> createPublisher(long elements) {
            return Flux.range(0, (int) Math.min(elements, Integer.MAX_VALUE)).transform(limiter.throttle("a"));
        }

        @Override
        public Publisher<Integer> createFailedPublisher() {
            return Flux.<Integer>error(new IllegalStateException("told to fail"))
                    .transform(limiter.throttle("a"));
        }
    }

    /** The throttle as a subscriber. */
    public static final class AsSubscriber extends SubscriberBlackboxVerification<Integer> {

        AsSubscriber() {
            super(new TestEnvironment(WAIT_MILLIS, NOTHING_MILLIS));
        }

        @Override
        public Subscriber<Integer> createSubscriber() {
            AtomicReference<CoreSubscriber<? super Integer>> inside = new AtomicReference<>();
            Flux<Integer> source = new Flux<>() {
                @Override
                public void subscribe(CoreSubscriber<? super Integer> actual) {
                    inside.set(actual);
                }
            };
            source.transform(limiter(Limit.perSecond(10_000)).throttle("a")).subscribe(element -> {}, error -> {});
            @SuppressWarnings("unchecked") // it takes integers
            Subscriber<Integer> subscriber = (Subscriber<Integer>) inside.get();
            return subscriber;
        }

        @Override
        public Integer createElement(int element) {
            return element;
        }
    }
}
