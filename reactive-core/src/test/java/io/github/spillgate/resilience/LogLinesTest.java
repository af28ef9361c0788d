package io.github.spillgate.resilience;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.ForeignValueException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.VirtualTime;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One line for each change of who decides, and none for each request. */
class LogLinesTest {

    private final ByteArrayOutputStream written = new ByteArrayOutputStream();
    private final PrintStream before = System.err;
    private final VirtualTime time = new VirtualTime();
    private final Elsewhere elsewhere = new Elsewhere(time);
    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(elsewhere)
            .fallback(LocalStore.bounded(1_000, time))
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
        elsewhere.isNotThere();
        for (int second = 0; second < 60; second++) {
            ask(100);
            time.passMillis(1_000);
        }
        elsewhere.answers();
        for (int second = 0; second < 10; second++) {
            ask(100);
            time.passMillis(1_000);
        }
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalStore; Elsewhere is unavailable: nothing listens there",
                        "INFO Elsewhere is available again; LocalStore no longer decides");
    }

    @Test
    void aQuestionThatIsNotAnsweredInTimeIsNoLine() {
        elsewhere.hangs();
        ask(3);
        time.passMillis(200);
        elsewhere.goOn();
        assertThat(limiter.state().fellBack()).isEqualTo(3);
        assertThat(lines()).isEmpty();
    }

    @Test
    void whyAStoreCannotBeReachedIsSaidAlsoWhenItIsKnownLate() {
        elsewhere.hangs();
        for (int i = 0; i < 20; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
        time.passMillis(150);
        assertThat(lines()).hasSize(1);
        elsewhere.failsToGoOn(new LimitStoreUnreachableException("WRONGPASS", null));
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1)).isEqualTo("WARN Elsewhere cannot be reached: WRONGPASS");
        elsewhere.isDeaf();
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
            elsewhere.hangs();
            for (int i = 0; i < 20; i++) {
                limiter.tryAcquire("key-" + i).subscribe();
            }
            time.passMillis(150);
            elsewhere.failsToGoOn(new LimitStoreUnreachableException("WRONGPASS", null));
            elsewhere.answers();
            for (int second = 0; second < 5; second++) {
                ask(10);
                time.passMillis(1_000);
            }
        }
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalStore; Elsewhere is unavailable: Elsewhere has not answered within 100 ms",
                        "WARN Elsewhere cannot be reached: WRONGPASS",
                        "INFO Elsewhere is available again; LocalStore no longer decides",
                        "WARN Falling back to LocalStore; Elsewhere is unavailable: Elsewhere has not answered within 100 ms",
                        "WARN Elsewhere cannot be reached: WRONGPASS",
                        "INFO Elsewhere is available again; LocalStore no longer decides");
    }

    @Test
    void whatIsKnownWhenTheStoreIsGivenUpIsNotSaidAgain() {
        elsewhere.hangs();
        for (int i = 0; i < 5; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
        time.passMillis(150);
        elsewhere.isNotThere();
        ask(1);
        elsewhere.failsToGoOn(new LimitStoreUnreachableException("nothing listens there", null));
        assertThat(lines())
                .containsExactly("WARN Falling back to LocalStore; Elsewhere is unavailable: nothing listens there");
    }

    @Test
    void aBreakerThatOpensAtASuccessIsALineToo() {
        elsewhere.fails();
        for (int i = 0; i < 9; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
        elsewhere.answers();
        limiter.tryAcquire("other").subscribe();
        assertThat(lines()).containsExactly("WARN Falling back to LocalStore; Elsewhere is unavailable: told to fail");
        assertThat(limiter.state().problem()).hasValue("told to fail");
    }

    @Test
    void foreignValuesAreOneLine() {
        elsewhere.failsWith(new ForeignValueException("the value under a key is not ours", null));
        ask(100);
        assertThat(lines())
                .containsExactly(
                        "WARN Elsewhere cannot decide on a key; falling back to LocalStore for it: the value under a key is not ours");
    }

    @Test
    void whatCannotBeSettledAtTheEndIsALine() {
        elsewhere.isNotThere();
        ask(4);
        limiter.close();
        time.passMillis(2_000);
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1))
                .isEqualTo("WARN 4 permits that LocalStore has granted will not be charged in Elsewhere");
    }

    @Test
    void whereAllIsSettledTheEndIsNoLine() {
        elsewhere.isNotThere();
        ask(4);
        elsewhere.answers();
        time.passMillis(5_000);
        assertThat(limiter.state().settled()).isEqualTo(4);
        int before = lines().size();
        limiter.close();
        time.passMillis(2_000);
        assertThat(lines()).hasSize(before);
    }

    @Test
    void aStoreThatHangsIsALineWithinASecondAlsoIfOneKeyIsAskedFor() {
        decideElsewhere();
        elsewhere.hangs();
        askForTenths(9);
        assertThat(lines())
                .containsExactly(
                        "WARN Falling back to LocalStore; Elsewhere is unavailable: Elsewhere has not answered within 100 ms");
        assertThat(limiter.state().breaker()).as("it has heard of one question").isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().decides()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().isFallenBack()).isTrue();
        assertThat(limiter.state().problem()).hasValue("Elsewhere has not answered within 100 ms");
        elsewhere.answers();
        elsewhere.goOn();
        askForTenths(50);
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1)).isEqualTo("INFO Elsewhere is available again; LocalStore no longer decides");
        assertThat(limiter.state().decides()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().isFallenBack()).isFalse();
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void aSingleTimeoutIsNoLineHoweverFewAsk() {
        decideElsewhere();
        elsewhere.hangs();
        ask(1);
        time.passMillis(150);
        elsewhere.answers();
        elsewhere.goOn();
        for (int second = 0; second < 10; second++) {
            time.passMillis(1_000);
            ask(1);
        }
        assertThat(lines()).isEmpty();
        assertThat(limiter.state().decides()).isEqualTo(Source.OTHER);
    }

    /** What is reconciled late says nothing about decisions, which have less time. */
    @Test
    void aStoreThatIsAlwaysSlowerThanTheDeadlineIsOneLine() {
        decideElsewhere();
        elsewhere.isLateBy(Duration.ofMillis(150));
        for (int i = 0; i < 100; i++) {
            ask(1);
            time.passMillis(101);
            ask(1);
            time.passMillis(451);
        }
        assertThat(lines()).hasSize(1);
        assertThat(limiter.state().decides()).isEqualTo(Source.LOCAL);
    }

    private void decideElsewhere() {
        ask(1);
        assertThat(limiter.state().decides()).isEqualTo(Source.OTHER);
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
