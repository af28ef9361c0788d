package io.github.spillgate.failover;

import io.github.spillgate.failover.ledger.Delivery;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import reactor.core.publisher.Mono;

/**
 * The holds that ended during an outage of the primary store. They are released when it is back, unless they have
 * expired there by then. Bounded: any further hold expires.
 */
final class Releases {

    static final int MOST = 10_000;

    private final ConcurrentMap<HoldKey, Release> waiting = new ConcurrentHashMap<>();
    private final Outbox<Claim> outbox;

    Releases(LimitStore primary, CircuitGates gates) {
        outbox = new Outbox<>(
                primary,
                gates,
                new Outbox.Channel<>(
                        "release",
                        false,
                        Duration.ZERO,
                        holds -> primary.hold(holds, HoldAction.RELEASE)
                                .thenReturn(
                                        Collections.nCopies(holds.size(), Corrected.of(CorrectionOutcome.APPLIED)))));
    }

    /** Adds holds, which are released later. */
    void add(List<Claim> holds) {
        for (Claim claim : holds) {
            UUID id = claim.holdId();
            if (id != null && waiting.size() < MOST) {
                HoldKey key = new HoldKey(claim.handle(), id);
                Release one = new Release(
                        key, claim, Time.nanos() + claim.limit().holdTime().toNanos());
                if (waiting.putIfAbsent(key, one) == null) {
                    outbox.add(one);
                }
            }
        }
    }

    int size() {
        return waiting.size();
    }

    /** Sends at once what waits for a node that is available again. */
    void nodeIsBack(String node) {
        outbox.nodeIsBack(node);
    }

    /** Makes a last attempt, for at most a second, and ends; never an error. What is left expires. */
    Mono<Void> end() {
        return outbox.end();
    }

    /** A request on several counts has one id for all of them. */
    private record HoldKey(Object count, UUID id) {}

    /** A hold to release, which has expired in the primary store at a time of {@link Time#nanos()}. */
    private final class Release implements Delivery<Claim> {

        private final HoldKey key;
        private final Claim claim;
        private final long expiresAt;

        Release(HoldKey key, Claim claim, long expiresAt) {
            this.key = key;
            this.claim = claim;
            this.expiresAt = expiresAt;
        }

        @Override
        public Claim claim() {
            return claim;
        }

        @Override
        public Claim message() {
            return claim;
        }

        @Override
        public boolean isExpired() {
            return Time.nanos() - expiresAt >= 0;
        }

        @Override
        public boolean isAlone() {
            return false;
        }

        @Override
        public void delivered(Corrected result) {
            waiting.remove(key);
        }

        @Override
        public boolean refused() {
            return false;
        }

        @Override
        public void lost(String why) {
            waiting.remove(key);
        }
    }
}
