package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.failover.FailoverHistory.Instance;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.testkit.VirtualTime;
import java.util.List;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Several instances come back from an outage one after another, in less than a window. */
class OutageEndTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    /** The first one must not take what the others have granted and not handed over yet. */
    @ParameterizedTest
    @CsvSource({
        "60/3s, 2",
        "60/3s, 4",
        "100/10s, 4",
        "60/3s counter, 4",
        "60/3s counter aligned, 2",
        "20/1s burst=60, 2",
        "10/1s, 4"
    })
    void togetherTheyGrantTheLimit(String text, int instances) {
        Limit limit = Limit.parse(text);
        FailoverHistory history = historyInAnOutage(limit, instances);
        int before = history.requests();
        history.instances().forEach(Instance::acquireAll);
        long during = history.grantedSince(before);
        assertThat(during).as("granted in the outage").isBetween(limit.capacity() / 2, limit.capacity());
        for (Instance instance : history.instances()) {
            instance.reconnect();
            time.passMillis(150);
            instance.acquireAll();
        }
        // A bucket returns permits in the meantime.
        long returned = limit.capacity() * 400L * instances / LimitKind.reach(limit);
        assertThat(history.grantedSince(before))
                .isLessThanOrEqualTo(limit.capacity() + (text.contains("burst") ? returned : 0));
    }

    /** Traffic at nine tenths of the limit goes on. The others have charged all, or keep to their shares. */
    @ParameterizedTest
    @CsvSource({"60/3s, 2", "60/3s, 4", "100/10s, 2", "60/3s counter aligned, 2"})
    void whatExpiresIsGrantedAgain(String text, int instances) {
        Limit limit = Limit.parse(text);
        FailoverHistory history = new FailoverHistory(time, limit, instances);
        time.passMillis(6_000);
        long pause = limit.window().toMillis() * 10 / 9 / limit.permits();
        acquireEvenly(history, pause, 2 * limit.window().toMillis());
        history.instances().forEach(instance -> instance.connection(Mode.DOWN));
        acquireEvenly(history, pause, 700);
        history.instances().forEach(Instance::reconnect);
        int before = history.requests();
        acquireEvenly(history, pause, 3_000);
        assertThat(history.grantedSince(before) / (double) (history.requests() - before))
                .isGreaterThan(0.7);
    }

    private void acquireEvenly(FailoverHistory history, long pause, long millis) {
        List<Instance> instances = history.instances();
        for (int i = 0; i * pause < millis; i++) {
            instances.get(i % instances.size()).acquire(1);
            time.passMillis(pause);
        }
    }

    @Test
    void afterThreeSecondsTheStoreDecidesAlone() {
        FailoverHistory history = historyInAnOutage(Limit.parse("60/1m"), 2);
        int before = history.requests();
        Instance first = history.instance(0);
        first.acquire(3);
        first.reconnect();
        time.passMillis(150);
        first.acquireAll();
        assertThat(history.grantedSince(before)).isBetween(20L, 30L);
        time.passMillis(3_000);
        first.acquireAll();
        assertThat(history.grantedSince(before)).isEqualTo(60);
    }

    @Test
    void untilThenTheFallbackGrantsWhatIsLeftOfTheShare() {
        FailoverHistory history = historyInAnOutage(Limit.parse("60/1m"), 2);
        Instance first = history.instance(0);
        first.acquire(3);
        first.reconnect();
        time.passMillis(150);
        first.acquire(1);
        first.connection(Mode.DOWN);
        int before = history.requests();
        first.acquire(1);
        assertThat(history.grantedSince(before)).isEqualTo(1);
        first.acquireAll();
        assertThat(history.grantedSince(before)).isBetween(10L, 30L);
    }

    /** Returns instances that know of each other, have used nothing, and have lost their connections. */
    private FailoverHistory historyInAnOutage(Limit limit, int instances) {
        FailoverHistory history = new FailoverHistory(time, limit, instances);
        time.passMillis(6_000);
        for (Instance instance : history.instances()) {
            instance.connection(Mode.DOWN);
            for (int i = 0; i < 20; i++) {
                instance.peek();
            }
        }
        return history;
    }
}
