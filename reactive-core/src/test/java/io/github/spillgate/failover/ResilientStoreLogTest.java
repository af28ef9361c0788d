package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.ForeignValueException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.testkit.VirtualTime;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One log line for each change between the store and the fallback, and none for each request. */
class ResilientStoreLogTest {

    private final ByteArrayOutputStream written = new ByteArrayOutputStream();
    private final PrintStream before = System.err;
    private final VirtualTime time = new VirtualTime();
    private final ControlledStore remote = new ControlledStore(time);
    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(remote)
            .fallback(Fallback.local(1_000, time))
            .limit(Limit.perMinute(10_000))
            .build();

    @BeforeEach
    void listen() {
        System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
    }

    @AfterEach
    void stop() {
        System.setErr(before);
        time.close();
    }

    @Test
    void anOutageIsTwoLinesHoweverLongItTakesAndHoweverManyAsk() {
        remote.isNotThere();
        for (int second = 0; second < 60; second++) {
            ask(100);
            time.passMillis(1_000);
        }
        remote.answers();
        for (int second = 0; second < 10; second++) {
            ask(100);
            time.passMillis(1_000);
        }
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalFallback; ControlledStore is unavailable: nothing listens there",
                        "INFO ControlledStore is available again; LocalFallback no longer decides");
    }

    @Test
    void aQuestionThatIsNotAnsweredInTimeIsNoLine() {
        remote.hangs();
        ask(3);
        time.passMillis(200);
        remote.goOn();
        assertThat(limiter.state().fallbacks()).isEqualTo(3);
        assertThat(lines()).isEmpty();
    }

    @Test
    void whyAStoreCannotBeReachedIsSaidAlsoWhenItIsKnownLate() {
        remote.hangs();
        for (int i = 0; i < 20; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
        time.passMillis(150);
        assertThat(lines()).hasSize(1);
        remote.failsToGoOn(new LimitStoreUnreachableException("WRONGPASS", null));
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1)).isEqualTo("WARN ControlledStore cannot be reached: WRONGPASS");
        remote.isDeaf();
        for (int second = 0; second < 20; second++) {
            ask(10);
            time.passMillis(1_000);
        }
        assertThat(lines()).hasSize(2);
        assertThat(limiter.state().problem()).hasValue("WRONGPASS");
    }

    @Test
    void whyIsSaidInEachOutageAndOnceInEach() {
        for (int outage = 1; outage <= 2; outage++) {
            remote.hangs();
            for (int i = 0; i < 20; i++) {
                limiter.tryAcquire("key-" + i).subscribe();
            }
            time.passMillis(150);
            remote.failsToGoOn(new LimitStoreUnreachableException("WRONGPASS", null));
            remote.answers();
            for (int second = 0; second < 5; second++) {
                ask(10);
                time.passMillis(1_000);
            }
        }
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalFallback; ControlledStore is unavailable: ControlledStore did not "
                                + "reply within 100 ms",
                        "WARN ControlledStore cannot be reached: WRONGPASS",
                        "INFO ControlledStore is available again; LocalFallback no longer decides",
                        "WARN Falling back to LocalFallback; ControlledStore is unavailable: ControlledStore did not "
                                + "reply within 100 ms",
                        "WARN ControlledStore cannot be reached: WRONGPASS",
                        "INFO ControlledStore is available again; LocalFallback no longer decides");
    }

    @Test
    void whatIsKnownWhenTheStoreIsGivenUpIsNotSaidAgain() {
        remote.hangs();
        for (int i = 0; i < 5; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
        time.passMillis(150);
        remote.isNotThere();
        ask(1);
        remote.failsToGoOn(new LimitStoreUnreachableException("nothing listens there", null));
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalFallback; ControlledStore is unavailable: nothing listens there");
    }

    @Test
    void aBreakerThatOpensAtASuccessIsALineToo() {
        remote.fails();
        for (int i = 0; i < 9; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
        remote.answers();
        limiter.tryAcquire("other").subscribe();
        assertThat(lines())
                .containsExactly("WARN Falling back to LocalFallback; ControlledStore is unavailable: told to fail");
        assertThat(limiter.state().problem()).hasValue("told to fail");
    }

    @Test
    void foreignValuesAreOneLine() {
        remote.failsWith(new ForeignValueException("the value under a key is not ours", null));
        ask(100);
        assertThat(lines())
                .containsExactly(
                        "WARN ControlledStore cannot decide on a key; falling back to LocalFallback for it: the value "
                                + "under a key is not ours");
    }

    @Test
    void whatCannotBeReconciledAtTheEndIsALine() {
        remote.isNotThere();
        ask(4);
        limiter.close();
        time.passMillis(2_000);
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1))
                .isEqualTo("WARN 4 permits that LocalFallback has granted will not be charged in ControlledStore");
    }

    @Test
    void whereAllIsReconciledTheEndIsNoLine() {
        remote.isNotThere();
        ask(4);
        remote.answers();
        time.passMillis(5_000);
        assertThat(limiter.state().reconciled()).isEqualTo(4);
        int before = lines().size();
        limiter.close();
        time.passMillis(2_000);
        assertThat(lines()).hasSize(before);
    }

    @Test
    void aStoreThatHangsIsALineWithinASecondAlsoIfOneKeyIsAskedFor() {
        decideElsewhere();
        remote.hangs();
        askForTenths(9);
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalFallback; ControlledStore is unavailable: ControlledStore did not "
                                + "reply within 100 ms");
        assertThat(limiter.state().breaker()).as("it has heard of one question").isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().isFallbackActive()).isTrue();
        assertThat(limiter.state().problem()).hasValue("ControlledStore did not reply within 100 ms");
        remote.answers();
        remote.goOn();
        askForTenths(50);
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1))
                .isEqualTo("INFO ControlledStore is available again; LocalFallback no longer decides");
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().isFallbackActive()).isFalse();
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void aSingleTimeoutIsNoLineHoweverFewAsk() {
        decideElsewhere();
        remote.hangs();
        ask(1);
        time.passMillis(150);
        remote.answers();
        remote.goOn();
        for (int second = 0; second < 10; second++) {
            time.passMillis(1_000);
            ask(1);
        }
        assertThat(lines()).isEmpty();
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
    }

    /** What is reconciled late says nothing about decisions, which have less time. */
    @Test
    void aStoreThatIsAlwaysSlowerThanTheDeadlineIsOneLine() {
        decideElsewhere();
        remote.isLateBy(Duration.ofMillis(150));
        for (int i = 0; i < 100; i++) {
            ask(1);
            time.passMillis(101);
            ask(1);
            time.passMillis(451);
        }
        assertThat(lines()).hasSize(1);
        assertThat(limiter.state().source()).isEqualTo(Source.LOCAL);
    }

    private void decideElsewhere() {
        ask(1);
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
    }

    private void askForTenths(int tenths) {
        for (int tenth = 0; tenth < tenths; tenth++) {
            ask(1);
            time.passMillis(100);
        }
    }

    private void ask(int times) {
        for (int i = 0; i < times; i++) {
            limiter.tryAcquire("a").subscribe();
        }
    }

    private List<String> lines() {
        return written.toString(StandardCharsets.UTF_8)
                .lines()
                .filter(line -> line.contains(ResilientStore.class.getName()))
                .map(line -> line.replaceFirst("^\\[.*?] ", "").replace(ResilientStore.class.getName() + " - ", ""))
                .toList();
    }
}
