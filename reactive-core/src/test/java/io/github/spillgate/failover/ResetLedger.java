package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.fail;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.util.Comparator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A record of the grants, refunds and resets of one count. Where a grant and a reset overlap, it assumes that the reset
 * removed the grant.
 */
final class ResetLedger {

    private final Queue<Grant> grants = new ConcurrentLinkedQueue<>();
    private final Queue<Reset> resets = new ConcurrentLinkedQueue<>();

    void granted(Decision decision, long requestedAt) {
        grants.add(new Grant(decision, requestedAt, System.nanoTime()));
    }

    /**
     * Returns a decision that has not been refunded yet, and marks it as refunded; empty if there is none. No two
     * threads get the same: the later mark would replace the earlier one, and the permit may be granted in between.
     */
    List<Decision> refundOneOf(int which) {
        while (true) {
            List<Grant> left = grants.stream()
                    .filter(grant -> grant.refundedAt.get() == Long.MAX_VALUE)
                    .toList();
            if (left.isEmpty()) {
                return List.of();
            }
            Grant grant = left.get(which % left.size());
            if (grant.refundedAt.compareAndSet(Long.MAX_VALUE, System.nanoTime())) {
                return List.of(grant.decision);
            }
        }
    }

    Reset resetBegins() {
        Reset reset = new Reset(System.nanoTime());
        resets.add(reset);
        return reset;
    }

    void assertNeverGrantedMoreThan(Limit limit) {
        List<Grant> all = grants.stream()
                .sorted(Comparator.comparingLong(Grant::repliedAt))
                .toList();
        for (Grant last : all) {
            long since = resets.stream()
                    .filter(reset -> reset.began < last.repliedAt)
                    .mapToLong(reset -> reset.ended)
                    .max()
                    .orElse(Long.MIN_VALUE);
            if (last.requestedAt <= since) {
                continue;
            }
            long counting = all.stream()
                    .filter(grant -> grant.repliedAt <= last.repliedAt
                            && grant.requestedAt > since
                            && grant.refundedAt.get() > last.repliedAt)
                    .count();
            if (counting > limit.permits()) {
                fail(counting + " permits granted under " + limit + " by the time of " + last.decision + ", of "
                        + all.size() + " in all, with " + resets.size() + " resets");
            }
        }
    }

    private static final class Grant {

        private final Decision decision;
        private final long requestedAt;
        private final long repliedAt;
        private final AtomicLong refundedAt = new AtomicLong(Long.MAX_VALUE);

        private Grant(Decision decision, long requestedAt, long repliedAt) {
            this.decision = decision;
            this.requestedAt = requestedAt;
            this.repliedAt = repliedAt;
        }

        private long repliedAt() {
            return repliedAt;
        }
    }

    /** A reset that begins when it is created. */
    static final class Reset {

        private final long began;
        private volatile long ended = Long.MAX_VALUE;

        private Reset(long began) {
            this.began = began;
        }

        void ends() {
            ended = System.nanoTime();
        }
    }
}
