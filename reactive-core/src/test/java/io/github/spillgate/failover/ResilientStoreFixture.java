package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.test.subscriber.TestSubscriber;

/** A resilient store around a {@link ControlledStore}, in virtual time. */
abstract class ResilientStoreFixture {

    static final Limit LIMIT = Limit.of(10, Duration.ofMinutes(1));

    @AutoClose
    final VirtualTime time = new VirtualTime();

    final ControlledStore remote = new ControlledStore(time);
    final LocalFallback local = Fallback.local(1_000, time);

    /** The values and errors of {@link #listen}, in their order. */
    final List<Object> signals = new ArrayList<>();

    /**
     * Returns a store with a breaker that throws when it should open: after this many answers, one of them slower than
     * 1 ms.
     */
    ResilientStore throwsWhenTheBreakerOpens(int calls) {
        return ResilientStore.builder(remote)
                .fallback(local)
                .breaker(settings -> settings.slowCallDurationThreshold(Duration.ofMillis(1))
                        .slowCallRateThreshold(1)
                        .failureRateThreshold(100)
                        .minimumNumberOfCalls(calls)
                        .waitIntervalFunctionInOpenState(attempt -> {
                            throw new IllegalStateException("broken");
                        }))
                .build();
    }

    /** Sends the reconciliation at once, by a peek that the fallback answers. */
    void sendTheReconciliation(RateLimiter limiter) {
        time.passMillis(25);
        assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.LOCAL);
        time.passMillis(1);
        assertThat(remote.batches()).hasSize(1);
    }

    /**
     * Returns two grants of the fallback, made at one time, after the deadline. The store has charged the 3 permits of
     * the first one, and its reply is held. It has not charged the 4 permits of the second one.
     */
    List<Decision> grantsOfTheSameTime(RateLimiter limiter) {
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        remote.failsAfter(Duration.ofMillis(110), new LimitStoreException(Kind.LATE, "too late"));
        listen(limiter.tryAcquire(Charge.of("a", 4)));
        time.passMillis(115);
        assertThat(sources()).containsExactly(Source.LOCAL, Source.LOCAL);
        assertThat(decisions())
                .extracting(Decision::at)
                .hasSize(2)
                .containsOnly(decisions().get(0).at());
        remote.isAvailable();
        return decisions();
    }

    RateLimiter limiter(Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder("api").store(remote).fallback(local);
        Stream.of(limits).forEach(builder::limit);
        return builder.build();
    }

    /** Returns a limiter on another store than {@link #remote}, with the local fallback. */
    RateLimiter limiterOn(LimitStore store) {
        return limiterOn(store, local);
    }

    static RateLimiter limiterOn(LimitStore store, LimitStore fallback) {
        return RateLimiter.builder("api")
                .store(store)
                .fallback(fallback)
                .limit(LIMIT)
                .build();
    }

    static RateLimiter on(LimitStore store) {
        return RateLimiter.builder("api").store(store).limit(LIMIT).build();
    }

    RateLimiter limiterWith(LimitStore fallback) {
        return limiterWith(fallback, LIMIT);
    }

    RateLimiter limiterWith(LimitStore fallback, Limit limit) {
        return RateLimiter.builder("api")
                .store(remote)
                .fallback(fallback)
                .limit(limit)
                .build();
    }

    void open(RateLimiter limiter) {
        remote.isUnreachable();
        now(limiter.peek("open"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    /** Returns the permits that the scripted store has counted. */
    long used(String key) {
        return used(key, LIMIT);
    }

    long used(String key, Limit limit) {
        return now(remote.unprotected("api").limit(limit).build().peek(key))
                .limits()
                .get(0)
                .used();
    }

    /** Returns a subscriber that requests nothing yet. */
    static TestSubscriber<Decision> withoutDemand() {
        return TestSubscriber.builder().initialRequest(0).build();
    }

    Disposable listen(Mono<?> answer) {
        return answer.subscribe(signals::add, signals::add);
    }

    List<Decision> decisions() {
        return signals.stream().map(Decision.class::cast).toList();
    }

    List<Source> sources() {
        return decisions().stream().map(Decision::source).toList();
    }

    static Decision now(Mono<? extends Decision> decision) {
        Sinks.One<Decision> answer = Sinks.one();
        decision.subscribe(answer::tryEmitValue, answer::tryEmitError, answer::tryEmitEmpty);
        return requireNonNull(answer.asMono().block(Duration.ZERO));
    }
}
