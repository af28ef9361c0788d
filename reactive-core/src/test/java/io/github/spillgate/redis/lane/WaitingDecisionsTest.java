package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.internal.Background;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

class WaitingDecisionsTest {

    /** The owner of a slot is found on the thread of the timers, and too many decisions may wait for its connection. */
    @Test
    void aDecisionThatMayNotWaitAgainFailsOnTheThreadOfDecisions() {
        WaitingDecisions forOwner = new WaitingDecisions(BatchBounds.DEFAULT, Schedulers.parallel());
        WaitingDecisions forConnection = new WaitingDecisions(new BatchBounds(1, 1, 1), Schedulers.parallel());
        Mono<String> owner = Mono.<String>create(sink ->
                        Background.scheduler().schedule(() -> sink.success("owner"), 100, TimeUnit.MILLISECONDS))
                .cache();
        List<String> threads = Flux.range(0, 2)
                .flatMap(i -> PendingDecision.of(
                                StoreRequest.take(List.of()),
                                0,
                                decision -> forOwner.await(
                                        owner,
                                        decision,
                                        found -> forConnection.await(Mono.never(), decision, opened -> {})),
                                unused -> {})
                        .map(decision -> "decided")
                        .onErrorResume(e ->
                                Mono.fromSupplier(() -> Thread.currentThread().getName())))
                .take(1)
                .collectList()
                .block(Duration.ofSeconds(10));
        assertThat(threads).singleElement().asString().startsWith("parallel-");
    }
}
