package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LogForTests;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** One log line for each change between the store and the fallback, and none for each request. */
class ResilientStoreLogTest extends ResilientStoreFixture {

    private static final String FELL_BACK = "WARN Falling back to LocalFallback; ControlledStore is unavailable: ";
    private static final String NO_REPLY = "ControlledStore did not reply within 100 ms, the deadline of the limiter";
    private static final String UNREACHABLE = "WARN ControlledStore cannot be reached: ";
    private static final String AVAILABLE = "INFO ControlledStore is available again; LocalFallback no longer decides";

    @AutoClose
    private final LogForTests log = LogForTests.listen();

    private final RateLimiter limiter = limiter(Limit.perMinute(10_000));

    @Test
    void anOutageLogsTwoLines() {
        remote.isUnreachable();
        for (int second = 0; second < 60; second++) {
            acquire(100);
            time.passMillis(1_000);
        }
        remote.isAvailable();
        for (int second = 0; second < 10; second++) {
            acquire(100);
            time.passMillis(1_000);
        }
        assertThat(lines()).containsExactly(FELL_BACK + "nothing listens there", AVAILABLE);
    }

    @Test
    void aRefusedProbeIsNotReportedAsARefusedOperation() {
        remote.isUnreachable();
        acquire(1);
        remote.failsToPrepareWith(new LimitStoreException(Kind.REFUSED, "it denied this user the command"));
        time.pass(Duration.ofSeconds(8));
        assertThat(lines())
                .containsExactly(
                        FELL_BACK + "nothing listens there",
                        "WARN ControlledStore cannot decide: it denied this user the command");
    }

    @Test
    void aFewMissedDeadlinesLogOneLine() {
        remote.holdsReplies();
        acquire(3);
        time.passMillis(200);
        remote.replyToAll();
        assertThat(limiter.state().fallbacks()).isEqualTo(3);
        assertThat(limiter.state().missedDeadlines()).isEqualTo(3);
        assertThat(lines()).isEmpty();
        time.passMillis(1_000);
        assertThat(lines())
                .containsExactly("WARN ControlledStore did not decide 3 requests by the deadline, 0 of them "
                        + "while this process was stalled; LocalFallback decided them. Likely cause: the "
                        + "store or the network is slow, or the deadline is too short for them");
    }

    @Test
    void missedDeadlinesAreLoggedOnceAMinute() {
        for (int second = 0; second < 300; second++) {
            remote.isAvailable();
            acquire(20);
            remote.holdsReplies();
            acquire(1);
            time.passMillis(200);
            remote.replyToAll();
            time.passMillis(800);
        }
        assertThat(limiter.state().missedDeadlines()).isEqualTo(300);
        assertThat(lines()).hasSize(5).allMatch(line -> line.contains("by the deadline"));
        assertThat(lines().get(4)).contains("did not decide 60 requests");
    }

    @Test
    void missedDeadlinesBeforeAnOutageAreNotLoggedApartFromIt() {
        remote.holdsReplies();
        acquire(100);
        time.passMillis(2_000);
        assertThat(limiter.state().breaker()).isNotEqualTo(Breaker.CLOSED);
        assertThat(lines()).hasSize(1);
        assertThat(lines().get(0)).startsWith("WARN Falling back to LocalFallback");
    }

    @Test
    void theCauseOfAnOutageIsLoggedWhenItArrivesLate() {
        remote.holdsReplies();
        acquireKeys(20);
        time.passMillis(150);
        assertThat(lines()).hasSize(1);
        remote.failAllHeld(new LimitStoreException(Kind.UNREACHABLE, "WRONGPASS"));
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1)).isEqualTo(UNREACHABLE + "WRONGPASS");
        remote.neverReplies();
        for (int second = 0; second < 20; second++) {
            acquire(10);
            time.passMillis(1_000);
        }
        assertThat(lines()).hasSize(2);
        assertThat(limiter.state().problem()).hasValue("WRONGPASS");
    }

    @Test
    void theCauseIsLoggedOncePerOutage() {
        for (int outage = 1; outage <= 2; outage++) {
            remote.holdsReplies();
            acquireKeys(20);
            time.passMillis(150);
            remote.failAllHeld(new LimitStoreException(Kind.UNREACHABLE, "WRONGPASS"));
            remote.isAvailable();
            for (int second = 0; second < 5; second++) {
                acquire(10);
                time.passMillis(1_000);
            }
        }
        assertThat(lines())
                .containsExactly(
                        FELL_BACK + NO_REPLY,
                        UNREACHABLE + "WRONGPASS",
                        AVAILABLE,
                        FELL_BACK + NO_REPLY,
                        UNREACHABLE + "WRONGPASS",
                        AVAILABLE);
    }

    /** As if a busy machine lost the reason of the first attempt to connect, or took too long for it. */
    @Test
    void eachCauseOfAnOutageIsLoggedOnce() {
        remote.isUnreachable();
        acquireForTenths(20);
        for (String cause : List.of(
                "no right to run script f594339a30af82438a713d55ba6950ed4f141f0c, line 73",
                "TIMEOUT: expected a host that replies",
                "no right to run script 0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33, line 9",
                "ERR Error running script: -READONLY You can't write",
                "READONLY You can't write against a read only replica.",
                "SILENCE: expected a host that replies",
                "nothing listens there")) {
            remote.failsWith(new LimitStoreException(Kind.UNREACHABLE, cause));
            acquireForTenths(50);
        }
        assertThat(lines())
                .containsExactly(
                        FELL_BACK + "nothing listens there",
                        UNREACHABLE + "no right to run script f594339a30af82438a713d55ba6950ed4f141f0c, line 73",
                        UNREACHABLE + "TIMEOUT: expected a host that replies",
                        UNREACHABLE + "ERR Error running script: -READONLY You can't write");
    }

    @Test
    void aRefusalIsLoggedIfTheOutageBeganWithAMissedDeadline() {
        decideInThePrimaryStore();
        remote.holdsReplies();
        acquireForTenths(9);
        LimitStoreException refusal = new LimitStoreException(Kind.REJECTED, "Redis refused the script");
        remote.failsWith(refusal);
        remote.failAllHeld(refusal);
        acquireForTenths(50);
        assertThat(lines())
                .startsWith(FELL_BACK + NO_REPLY, "WARN ControlledStore cannot decide: Redis refused the script");
        assertThat(lines().get(2)).contains("has granted cannot be charged in ControlledStore");
        assertThat(limiter.state().problem()).hasValue("Redis refused the script");
    }

    @Test
    void aFailureAfterAnOutageLogsNoLine() {
        remote.isUnreachable();
        acquire(1);
        remote.isAvailable();
        acquireForTenths(50);
        assertThat(lines()).hasSize(2);
        remote.failsWith(new LimitStoreException(Kind.REJECTED, "Redis refused the script"));
        acquire(1);
        assertThat(limiter.state().problem()).hasValue("Redis refused the script");
        assertThat(lines()).hasSize(2);
    }

    @Test
    void theLoggedCausesOfAnOutageAreBounded() {
        remote.isUnreachable();
        acquireForTenths(20);
        for (char cause = 'a'; cause <= 'z'; cause++) {
            remote.failsWith(new LimitStoreException(Kind.UNREACHABLE, "cause " + cause));
            acquireForTenths(20);
        }
        assertThat(lines()).hasSize(8);
    }

    @Test
    void aCauseLoggedAtTheFallbackIsNotLoggedAgain() {
        remote.holdsReplies();
        acquireKeys(5);
        time.passMillis(150);
        remote.isUnreachable();
        acquire(1);
        remote.failAllHeld(new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
        assertThat(lines()).containsExactly(FELL_BACK + "nothing listens there");
    }

    @Test
    void aBreakerThatOpensOnSuccessLogsALine() {
        remote.fails();
        acquireKeys(9);
        remote.isAvailable();
        limiter.tryAcquire("other").subscribe();
        assertThat(lines()).containsExactly(FELL_BACK + "told to fail");
        assertThat(limiter.state().problem()).hasValue("told to fail");
    }

    /** A store that replies with it decides on all other keys. */
    @Test
    void aForeignValueBetweenTwoMissedDeadlinesShowsThatThereIsNoOutage() {
        for (int i = 0; i < 2; i++) {
            remote.holdsReplies();
            limiter.peek("a").subscribe();
            time.passMillis(500);
            remote.failsWith(new LimitStoreException(Kind.FOREIGN_VALUE, "the value under a key is not ours"));
            limiter.peek("b").subscribe();
        }
        assertThat(limiter.state().isFallbackActive()).isFalse();
    }

    @Test
    void aForeignValueThatArrivesLateIsNoCauseOfAnOutage() {
        remote.holdsReplies();
        acquireKeys(20);
        time.passMillis(150);
        remote.failAllHeld(new LimitStoreException(Kind.FOREIGN_VALUE, "the value under a key is not ours"));
        assertThat(lines()).containsExactly(FELL_BACK + NO_REPLY);
    }

    @Test
    void aForeignValueIsLoggedAgainAfterAMinute() {
        for (int minute = 0; minute < 3; minute++) {
            remote.failsWith(new LimitStoreException(
                    Kind.FOREIGN_VALUE, "the value under key " + minute + " is not ours\r\n\u001b"));
            acquire(100);
            time.pass(Duration.ofMinutes(1));
        }
        List<String> lines = lines().stream()
                .filter(line -> line.contains("cannot decide on a key"))
                .toList();
        assertThat(lines).hasSize(3);
        assertThat(lines.get(2))
                .startsWith("WARN ControlledStore cannot decide on a key; falling back to LocalFallback for it: ");
        assertThat(lines.get(2)).endsWith("the value under key 2 is not ours\\u000d\\u000a\\u001b");
    }

    @Test
    void eachCauseOfARefusalIsLoggedAtMostOnceAMinute() {
        for (int minute = 0; minute < 2; minute++) {
            for (String command : List.of("unlink", "eval", "eval")) {
                remote.isAvailable();
                Decision granted = limiter.tryAcquire("a").block();
                remote.failsWith(new LimitStoreException(
                        Kind.REFUSED, "NOPERM: expected the right to run " + command + ", for example +" + command));
                limiter.refund(granted).subscribe();
            }
            time.pass(Duration.ofMinutes(1));
        }
        assertThat(lines())
                .filteredOn(line -> line.contains("refuses an operation"))
                .hasSize(4);
    }

    /** They are over-admission, which only a number showed. */
    @Test
    void grantsThatTheStoreWillNotChargeLogALine() {
        remote.isUnreachable();
        acquire(4);
        remote.reconciles(reply -> Mono.error(new LimitStoreException(Kind.REJECTED, "it refused the\nscript")));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(10));
        assertThat(limiter.state().lost()).isEqualTo(4);
        assertThat(lines())
                .contains("WARN 4 permits that LocalFallback has granted cannot be charged in "
                        + "ControlledStore, so more than a limit may be granted: it refused the\\u000ascript");
    }

    @Test
    void grantsNotReconciledAtTheEndLogALine() {
        remote.isUnreachable();
        acquire(4);
        limiter.close();
        time.passMillis(2_000);
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1))
                .isEqualTo("WARN 4 permits that LocalFallback has granted will not be charged in ControlledStore");
    }

    @Test
    void closingLogsNothingIfEverythingIsReconciled() {
        remote.isUnreachable();
        acquire(4);
        remote.isAvailable();
        time.passMillis(5_000);
        assertThat(limiter.state().reconciled()).isEqualTo(4);
        int before = lines().size();
        limiter.close();
        time.passMillis(2_000);
        assertThat(lines()).hasSize(before);
    }

    @Test
    void aHangIsLoggedWithinASecondIfOnlyOneKeyIsUsed() {
        decideInThePrimaryStore();
        remote.holdsReplies();
        acquireForTenths(9);
        assertThat(lines()).containsExactly(FELL_BACK + NO_REPLY);
        assertThat(limiter.state().breaker()).as("after one call").isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().isFallbackActive()).isTrue();
        assertThat(limiter.state().problem()).hasValue(NO_REPLY);
        remote.isAvailable();
        remote.replyToAll();
        acquireForTenths(50);
        assertThat(lines()).hasSize(2);
        assertThat(lines().get(1)).isEqualTo(AVAILABLE);
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().isFallbackActive()).isFalse();
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void aSingleTimeoutIsNoOutage() {
        decideInThePrimaryStore();
        remote.holdsReplies();
        acquire(1);
        time.passMillis(150);
        remote.isAvailable();
        remote.replyToAll();
        for (int second = 0; second < 10; second++) {
            time.passMillis(1_000);
            acquire(1);
        }
        assertThat(lines()).hasSize(1).allMatch(line -> line.contains("did not decide 1 requests by the deadline"));
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
    }

    @Test
    void callersWithoutTimeAreNotAFailureOfTheStore() {
        remote.isUnreachable();
        acquire(1);
        remote.isAvailable();
        acquireForTenths(50);
        assertThat(limiter.state().problem()).isEmpty();
        Duration longer = Duration.ofSeconds(1);
        for (int tenth = 0; tenth < 9; tenth++) {
            limiter.tryAcquire("a")
                    .contextWrite(context -> context.put(LimitStore.WAITING_SINCE, Time.nanos() - longer.toNanos()))
                    .subscribe();
            time.passMillis(100);
        }
        acquireForTenths(10);
        assertThat(lines()).hasSize(3);
        assertThat(lines().get(2)).startsWith("WARN ControlledStore did not decide 9 requests by the deadline");
        assertThat(limiter.state().problem()).isEmpty();
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
    }

    /** A slow reconciliation does not close the breaker, because decisions have a shorter deadline. */
    @Test
    void aStoreSlowerThanTheDeadlineLogsOneLine() {
        decideInThePrimaryStore();
        remote.repliesAfter(Duration.ofMillis(150));
        for (int i = 0; i < 100; i++) {
            acquire(1);
            time.passMillis(101);
            acquire(1);
            time.passMillis(451);
        }
        assertThat(lines()).hasSize(1);
        assertThat(limiter.state().source()).isEqualTo(Source.LOCAL);
    }

    private void decideInThePrimaryStore() {
        acquire(1);
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
    }

    private void acquireForTenths(int tenths) {
        for (int tenth = 0; tenth < tenths; tenth++) {
            acquire(1);
            time.passMillis(100);
        }
    }

    /** Requests so many keys at the same time. */
    private void acquireKeys(int number) {
        for (int i = 0; i < number; i++) {
            limiter.tryAcquire("key-" + i).subscribe();
        }
    }

    private void acquire(int times) {
        for (int i = 0; i < times; i++) {
            limiter.tryAcquire("a").subscribe();
        }
    }

    private List<String> lines() {
        return log.lines(ResilientStore.class.getName(), "ControlledStore").stream()
                .map(line -> line.replaceFirst("^\\[.*?] ", "").replace(ResilientStore.class.getName() + " - ", ""))
                .toList();
    }
}
