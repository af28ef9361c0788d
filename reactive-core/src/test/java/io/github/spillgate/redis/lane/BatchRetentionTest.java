package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.ClaimForTests;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** What a queue keeps of a flight, part of which Redis has answered. */
class BatchRetentionTest extends LaneFixture {

    private final Map<Integer, Sinks.One<byte[]>> replies = new ConcurrentHashMap<>();

    /** The other one may have been redirected to a node that does not reply. */
    @Test
    void anAnsweredBatchIsNotKeptByAnotherOfItsFlight() {
        OpenConnection open = lane.opened().block(LONG);
        BatchQueue queue = new BatchQueue(
                open,
                batch -> replies.computeIfAbsent(replies.size(), sent -> Sinks.one())
                        .asMono(),
                new CountKeys("retention"),
                new BatchBounds(128, 1, 1_000),
                AnswerDelivery.onLoop(),
                time -> false);
        Mono<StoreDecision> first = decision(queue, 0);
        Mono<StoreDecision> second = decision(queue, 1);
        AtomicReference<WeakReference<Object>> caller = new AtomicReference<>();
        assertThat(open.run(() -> {
                    Object one = new Object();
                    caller.set(new WeakReference<>(one));
                    first.contextWrite(context -> context.put("caller", one)).subscribe();
                    second.subscribe();
                }))
                .isTrue();
        await().atMost(LONG).until(() -> replies.size() == 2);
        byte[] granted = new byte[ScriptReply.TIME_LENGTH + ScriptReply.USAGE_LENGTH];
        granted[ScriptReply.TIME_LENGTH] = 1;
        replies.get(0).tryEmitValue(granted).orThrow();
        await().atMost(LONG).untilAsserted(() -> {
            System.gc();
            assertThat(caller.get().get()).isNull();
        });
        replies.get(1).tryEmitValue(granted).orThrow();
    }

    private static Mono<StoreDecision> decision(BatchQueue queue, int slot) {
        Claim claim = ClaimForTests.of("key-" + slot, Limit.perHour(10));
        return PendingDecision.of(StoreRequest.take(List.of(claim)), slot, queue::add, unused -> {});
    }
}
