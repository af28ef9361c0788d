package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.ClaimForTests;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** A group of equal requests of which Redis replies that the earliest deadline has passed. */
class BatchLateTest {

    private static final long MILLI = TimeUnit.MILLISECONDS.toNanos(1);

    private final List<Claim> claims = List.of(ClaimForTests.of("key", Limit.perHour(10)));
    private final AtomicLong now = new AtomicLong();
    private final Batch batch = new Batch(new CountKeys("test"), 4);
    private final List<PendingDecision> sent = new ArrayList<>();
    private final List<PendingDecision> retried = new ArrayList<>();
    private final List<Throwable> failures = new ArrayList<>();
    private Consumer<PendingDecision> onRetry = asked -> {};

    @Test
    void requestsBeforeTheirDeadlineAreRetriedAndTheOthersFail() {
        ask(5 * MILLI);
        ask(3 * MILLI);
        ask(8 * MILLI);
        sendAll();
        now.set(6 * MILLI);
        answerLate();
        assertThat(retried).containsExactly(sent.get(2));
        assertThat(failures).hasSize(2).are(kind(Kind.LATE));
    }

    /** A retry may be in another group before it returns. */
    @Test
    void allAreRetriedIfTheFirstJoinsAnotherGroup() {
        Batch other = new Batch(new CountKeys("test"), 4);
        PendingDecision stranger = ask(9 * MILLI);
        sent.clear();
        ask(9 * MILLI);
        ask(9 * MILLI);
        ask(9 * MILLI);
        sendAll();
        onRetry = asked -> {
            if (asked == sent.get(0)) {
                send(asked, other);
                send(stranger, other);
            }
        };
        answerLate();
        assertThat(retried).containsExactlyElementsOf(sent);
        assertThat(other.size()).isEqualTo(2);
    }

    /** If the server's clock jumps with each reply. */
    @Test
    void aRequestRefusedRepeatedlyFails() {
        ask(TimeUnit.HOURS.toNanos(1));
        sendAll();
        answerLate();
        for (int tries = 1; tries <= 3; tries++) {
            assertThat(retried).hasSize(tries);
            assertThat(failures).isEmpty();
            Batch again = new Batch(new CountKeys("test"), 1);
            send(sent.get(0), again);
            answerLate(again);
        }
        assertThat(retried).hasSize(3);
        assertThat(failures).singleElement().is(kind(Kind.LATE));
    }

    @Test
    void requestsWithDistantDeadlinesAreInSeparateGroups() {
        ask(5 * MILLI);
        ask(16 * MILLI);
        ask(LimitStore.NO_DEADLINE);
        ask(LimitStore.NO_DEADLINE);
        sendAll();
        assertThat(batch.numberOfGroups()).isEqualTo(3);
    }

    private PendingDecision ask(long deadline) {
        PendingDecision.of(StoreRequest.take(claims, deadline), 0, this::begin, unused -> {})
                .subscribe(decision -> {}, failures::add);
        return sent.get(sent.size() - 1);
    }

    private void begin(PendingDecision asked) {
        if (sent.contains(asked)) {
            retried.add(asked);
            onRetry.accept(asked);
        } else {
            sent.add(asked);
        }
    }

    private void sendAll() {
        sent.forEach(asked -> send(asked, batch));
    }

    private static void send(PendingDecision asked, Batch batch) {
        assertThat(asked.markSent()).isTrue();
        batch.add(asked);
    }

    private void answerLate() {
        answerLate(batch);
    }

    /** The reply has a time, and one usage with the status for LATE. */
    private void answerLate(Batch late) {
        late.request(new StoreClock(now::get));
        byte[] reply = new byte[ScriptReply.TIME_LENGTH + ScriptReply.USAGE_LENGTH];
        reply[ScriptReply.TIME_LENGTH + ScriptReply.STATUS] = 4; // LATE
        late.parts().forEach(part -> part.answer(new ScriptReply(reply)));
    }
}
