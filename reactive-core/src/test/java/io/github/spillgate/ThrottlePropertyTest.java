package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;

class ThrottlePropertyTest {

    /** For any pattern of demand and any delay of the store, each element is emitted once, in order, at the rate. */
    @Property(tries = 500)
    void everyPatternOfRequestsIsServed(@ForAll long seed) {
        try (VirtualTime time = new VirtualTime()) {
            run(new Random(seed), time);
        }
    }

    private static void run(Random random, VirtualTime time) {
        List<Integer> out = new ArrayList<>();
        HeldStore held = new HeldStore(LocalStore.bounded(100, time));
        Limit limit = Limit.of(1 + random.nextInt(10), Duration.ofMillis(40));
        RateLimiter limiter =
                RateLimiter.builder("test").store(held).limit(limit).build();
        int number = random.nextInt(60);
        long[] requested = {0};
        long[] asked = {0};
        List<String> ends = new ArrayList<>();
        BaseSubscriber<Integer> end = new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {}

            @Override
            protected void hookOnNext(Integer element) {
                out.add(element);
                if (random.nextInt(4) == 0) {
                    requested[0]++;
                    request(1);
                }
            }

            @Override
            protected void hookOnComplete() {
                ends.add("complete");
            }
        };
        Flux.range(0, number)
                .doOnRequest(n -> asked[0] += n)
                .transform(limiter.throttle("a", element -> element % 3 == 0 ? 0 : 1))
                .subscribe(end);
        boolean cancel = random.nextInt(5) == 0;
        for (int step = 0; step < 2_000 && ends.isEmpty(); step++) {
            held.decidesEarly(random.nextBoolean());
            switch (random.nextInt(3)) {
                case 0 -> {
                    long n = random.nextInt(20) == 0 ? 100 : 1 + random.nextInt(3);
                    requested[0] += n;
                    end.request(n);
                }
                case 1 -> time.passMillis(random.nextInt(25));
                default -> {
                    if (held.held() > 0) {
                        held.answer(random.nextInt(held.held()));
                    }
                }
            }
            assertThat((long) out.size()).isLessThanOrEqualTo(requested[0]);
            assertThat(asked[0]).isLessThanOrEqualTo(requested[0]);
            if (cancel && random.nextInt(50) == 0) {
                end.cancel();
                break;
            }
        }
        held.answerAll();
        assertThat(out)
                .containsExactlyElementsOf(
                        IntStream.range(0, out.size()).boxed().toList());
        if (!cancel) {
            assertThat(ends).containsExactly("complete");
            assertThat(out).hasSize(number);
        }
        assertNoWaiterIsLeft(limiter);
    }
}
