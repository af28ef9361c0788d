package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.DecidedClaims;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Tag;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

/**
 * Permits of a token bucket that are leased, spent at any time of the lease, and refunded, together with others: net of
 * refunds, no interval has more than the burst and what returns in it. All intervals are tried.
 */
class BucketLeasePropertyTest extends BucketFixture {

    private static final int WINDOW = 1_000;
    private static final int LEASE_TIME = 10;

    /** What has passed, whatever the clock shows. */
    private long time;

    private final List<Block> blocks = new ArrayList<>();
    private final List<Grant<Refund>> grants = new ArrayList<>();
    private final Set<Grant<Refund>> refunded = new HashSet<>();
    private Limit limit = Limit.perSecond(1).burst(1);
    private Claim claim = claimOf(limit);

    @Property(tries = 3_000)
    void noIntervalHasMoreThanTheBurstAndTheRate(
            @ForAll @IntRange(min = 50, max = 3_000) int permits,
            @ForAll @IntRange(min = 1, max = 60) int burst,
            @ForAll @Size(min = 1, max = 80) List<@IntRange(min = 0, max = 9_999) Integer> steps) {
        begin(permits, burst);
        for (int step : steps) {
            step(step);
            assertWithinTheLimit();
        }
    }

    @Property(tries = 200_000)
    @Tag("proof")
    void noIntervalHasMoreThanTheBurstAndTheRateInManyHistories(
            @ForAll @IntRange(min = 50, max = 3_000) int permits,
            @ForAll @IntRange(min = 1, max = 60) int burst,
            @ForAll @Size(min = 1, max = 80) List<@IntRange(min = 0, max = 9_999) Integer> steps) {
        begin(permits, burst);
        steps.forEach(this::step);
        assertWithinTheLimit();
    }

    /** The instance that leases measures with a clock that is not set back. A refund then has no certain time. */
    @Property(tries = 1_000)
    void noIntervalHasMoreWhileTheClockIsSetBack(
            @ForAll @IntRange(min = 50, max = 3_000) int permits,
            @ForAll @IntRange(min = 1, max = 60) int burst,
            @ForAll @Size(min = 1, max = 80) List<@IntRange(min = 0, max = 9_999) Integer> steps) {
        begin(permits, burst);
        for (int step : steps) {
            int kind = step % 100;
            if (kind >= 75) {
                clock.advanceMillis(-(step / 100 % 25));
            } else if (kind < 60) {
                step(step);
            } else {
                pass(1 + step / 100 % 4);
            }
            assertWithinTheLimit();
        }
    }

    /** The level is raised to what returns in the lease time, so nothing of the block returns before it is spent. */
    @Example
    void aBlockThatIsSpentAtTheEndOfTheLeaseHasNotReturned() {
        begin(1_000, 40);
        Block block = lease(20, 1);
        assertThat(block.left).isEqualTo(20);
        pass(LEASE_TIME);
        spend(block, 20);
        assertThat(take(20)).isTrue();
        assertThat(take(1)).isFalse();
    }

    @Example
    void anyPartThatIsLeftOfTheBurstCanBeLeased() {
        begin(1_000, 40);
        assertThat(take(6)).isTrue();
        // What returns in the lease time counts: 10. Of the other 30, a third can be leased.
        assertThat(lease(40, 3).left).isEqualTo(10);
        assertThat(lease(40, 3).left).isEqualTo(6);
    }

    @Example
    void permitsThatWereLeasedAndNotSpentAreRefundedInABusyBucket() {
        begin(100, 100);
        take(90);
        pass(5);
        Block block = lease(8, 1);
        pass(LEASE_TIME);
        long before = level();
        end(block);
        assertThat(before - level()).isEqualTo(8 * WINDOW);
    }

    /** A request and a lease are often charged in the same millisecond. */
    @Example
    void aRefundBesideALeaseKeepsWhatMayStillBeSpent() {
        begin(1_000, 40);
        take(5);
        Block block = lease(20, 1);
        refund(grants.get(0));
        pass(LEASE_TIME);
        spend(block, 20);
        assertThat(take(21)).isFalse();
        assertThat(take(20)).isTrue();
    }

    /** One permit is in use at the end of the lease beside the leased ones, so no more is refunded. */
    @Example
    void aRefundOfPermitsFromBeforeALeaseKeepsWhatMayStillBeSpent() {
        begin(1_000, 40);
        take(20);
        pass(1);
        take(5);
        pass(11);
        take(6);
        pass(8);
        Block block = lease(20, 1);
        refund(grants.get(2));
        pass(LEASE_TIME);
        spend(block, 20);
        assertThat(take(21)).isFalse();
        assertThat(take(20)).isTrue();
    }

    private void begin(int permits, int burst) {
        limit = Limit.perSecond(permits).burst(burst).leased();
        assertThat(limit.leaseTime()).isEqualTo(Duration.ofMillis(LEASE_TIME));
        claim = claimOf(limit);
        limiter(limit).reset("a").block();
        blocks.clear();
        grants.clear();
        refunded.clear();
    }

    /** Takes, leases, spends, lets time pass, or refunds. */
    private void step(int step) {
        int kind = step % 100;
        int number = step / 100;
        if (kind < 14) {
            take(1 + number % 9);
        } else if (kind < 30) {
            lease(1 + number % 30, 1 + number % 3);
        } else if (kind < 45) {
            if (!blocks.isEmpty()) {
                spend(blocks.get(number % blocks.size()), 1 + number % 9);
            }
        } else if (kind < 55) {
            spendAtTheEnd();
        } else if (kind < 75) {
            pass(kind < 70 ? 1 + number % 5 : number);
        } else if (kind < 82) {
            if (!blocks.isEmpty()) {
                end(blocks.get(number % blocks.size()));
            }
        } else if (!grants.isEmpty()) {
            refund(grants.get(Math.max(0, grants.size() - 1 - number % 6)));
        }
    }

    /** Spends everything when the newest lease ends, and takes what is left of the burst. */
    private void spendAtTheEnd() {
        if (!blocks.isEmpty()) {
            pass((int) Math.max(0, blocks.get(blocks.size() - 1).at + LEASE_TIME - time));
            blocks.forEach(block -> spend(block, block.left));
        }
        long free = (limit.capacity() * WINDOW - level()) / WINDOW;
        if (free > 0) {
            take((int) free);
        }
    }

    private void pass(int millis) {
        time += millis;
        clock.advanceMillis(millis);
    }

    private boolean take(int cost) {
        if (cost > limit.capacity()) {
            return false;
        }
        StoreDecision decision =
                store.take(StoreRequest.take(List.of(claim.withPermits(cost)))).block();
        if (decision.isAllowed()) {
            grants.add(new Grant<>(Refund.of(decision).get(0), time, cost * (long) WINDOW));
        }
        return decision.isAllowed();
    }

    private Block lease(int most, int parts) {
        StoreDecision lease = store.take(StoreRequest.lease(claim.withPermits(most), parts, Long.MAX_VALUE))
                .block();
        Block block = new Block(lease, time, lease.claims().get(0).permits());
        blocks.add(block);
        return block;
    }

    private void spend(Block block, long most) {
        long spent = Math.min(most, block.left);
        if (spent > 0 && time <= block.at + LEASE_TIME) {
            block.left -= spent;
            grants.add(new Grant<>(block.part(spent), time, spent * WINDOW));
        }
    }

    private void end(Block block) {
        if (block.left > 0) {
            store.correct(List.of(block.part(block.left))).block();
            block.left = 0;
        }
    }

    private void refund(Grant<Refund> grant) {
        if (!refunded.add(grant)) {
            return;
        }
        long before = level();
        store.correct(List.of(grant.decision)).block();
        grant.refunded(before - level());
    }

    private long level() {
        return level(claim);
    }

    private void assertWithinTheLimit() {
        assertWithin(limit, grants);
    }

    private Claim claimOf(Limit limit) {
        Decision decision = RateLimiter.builder("test")
                .store(store)
                .build()
                .peek(Charge.of("a", limit))
                .block();
        return DecidedClaims.of(decision).get(0);
    }

    /** Permits that are leased, of which some are left. */
    private static final class Block {
        private final StoreDecision lease;
        private final long at;
        private long left;

        Block(StoreDecision lease, long at, long left) {
            this.lease = lease;
            this.at = at;
            this.left = left;
        }

        private Refund part(long permits) {
            StoreUsage usage = lease.usages().get(0);
            return new Refund(usage.claim().withPermits(permits), usage, 0);
        }
    }
}
