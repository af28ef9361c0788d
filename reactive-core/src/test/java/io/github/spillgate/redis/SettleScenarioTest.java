package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.Unprotected;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;

/**
 * Calls of a language model under a limit of 100 tokens a minute. Five concurrent calls, of 663 tokens together, must
 * not all pass because none has reported its tokens yet.
 */
class SettleScenarioTest extends ScriptedFixture {

    private static final Limit TOKENS = Limit.perMinute(100).named("tokens");
    private static final Limit REQUESTS = Limit.perMinute(1_000).named("requests");

    private RateLimiter limiter(double debt) {
        return RateLimiter.builder("llm")
                .store(new Unprotected(store))
                .debt(debt)
                .build();
    }

    private static Charge[] call(long estimate) {
        return new Charge[] {
            Charge.of("user:42", REQUESTS), Charge.of("user:42", TOKENS).permits(estimate)
        };
    }

    private static List<Decision> concurrently(RateLimiter limiter, int calls, long estimate) {
        return Flux.range(0, calls)
                .flatMap(i -> limiter.tryAcquire(call(estimate)), calls)
                .collectList()
                .block();
    }

    private static void settle(RateLimiter limiter, Decision decision, long tokens) {
        limiter.settle(decision, usage -> usage.limit().equals(TOKENS) ? tokens : usage.cost())
                .block();
    }

    private static long used(RateLimiter limiter, Limit limit) {
        return limiter.peek(Charge.of("user:42", limit)).block().limits().get(0).used();
    }

    @Test
    void withATrueEstimateNeverMoreThanTheLimitIsSpent() {
        RateLimiter limiter = limiter(1);
        Random random = new Random(1);
        Deque<long[]> spent = new ArrayDeque<>();
        long total = 0;
        for (int round = 0; round < 300; round++) {
            long estimate = 10L + random.nextInt(40);
            for (Decision decision : concurrently(limiter, 5, estimate)) {
                if (decision.isAllowed()) {
                    long tokens = 1L + random.nextInt((int) estimate);
                    settle(limiter, decision, tokens);
                    spent.add(new long[] {clock.millis(), tokens});
                    total += tokens;
                }
            }
            spent.removeIf(one -> clock.millis() - one[0] > 60_000);
            assertThat(spent.stream().mapToLong(one -> one[1]).sum()).isLessThanOrEqualTo(100);
            pass(random.nextInt(10_000));
        }
        // What was reserved and not used was available to other calls.
        assertThat(total).isGreaterThan(1_000);
    }

    @ParameterizedTest
    @ValueSource(doubles = {1, 10})
    void withALowEstimateTheOvershootIsChargedAndDelaysTheNextCall(double debt) {
        RateLimiter limiter = limiter(debt);
        List<Decision> decisions = concurrently(limiter, 5, 20);
        assertThat(decisions).allMatch(Decision::isAllowed);
        pass(2_000);
        List<Integer> tokens = List.of(140, 121, 133, 129, 140);
        for (int i = 0; i < 5; i++) {
            settle(limiter, decisions.get(i), tokens.get(i));
        }
        long charged = debt == 1 ? 200 : 663;
        assertThat(used(limiter, TOKENS)).isEqualTo(charged);
        assertThat(used(limiter, REQUESTS)).isEqualTo(5);
        assertThat(limiter.tryAcquire(call(1)).block().isAllowed()).isFalse();
        // The reserved tokens leave the window first; the debt has returned a minute after it was charged.
        pass(58_001);
        assertThat(used(limiter, TOKENS)).isEqualTo(charged - 100);
        Decision denied = limiter.tryAcquire(call(1)).block();
        assertThat(denied.isAllowed()).isFalse();
        pass(denied.retryAfter().orElseThrow().toMillis() - 1);
        assertThat(limiter.tryAcquire(call(1)).block().isAllowed()).isFalse();
        pass(1);
        assertThat(limiter.tryAcquire(call(1)).block().isAllowed()).isTrue();
    }
}
