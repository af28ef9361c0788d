package io.github.spillgate.redis.lane;

import io.github.spillgate.count.Count;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreRequest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Encoder of the argument of a script. {@code wire.lua} and the header of each script describe the format.
 *
 * <p>All numbers are in one binary string, because an argument for each of them costs Redis and the client more.
 */
public final class ScriptRequest {

    private static final int COUNTS_DENIED = 1;

    private static final int LIMITS_LENGTH = 2;
    static final int LIMIT_LENGTH = 1 + 7 + 6 + 6 + 1 + 6;
    private static final int CLAIM_LENGTH = 2 + 7;

    /** The expected length of a request that is rare or short. */
    private static final int SHORT = 64;

    /** The length of a group with one claim in a request to decide. */
    static final int GROUP_LENGTH = 1 + 4 + 7 + 1 + 2 + CLAIM_LENGTH;

    /** The first claim under each limit. */
    private final List<Claim> limits = new ArrayList<>(1);

    private final long now;
    private byte[] body;
    private int length;

    /**
     * A request without content.
     *
     * @param expectedLength the length of everything behind the limits; a longer request is possible
     * @param now the time of the server, as far as it is known, for the boundaries of quotas
     */
    ScriptRequest(int expectedLength, long now) {
        this.now = now;
        body = new byte[expectedLength];
    }

    /** A request without content that opens no period of a quota. */
    ScriptRequest(int expectedLength) {
        this(expectedLength, 0);
    }

    /**
     * Adds a group of equal requests to decide; its claims follow.
     *
     * @param mode what is done
     * @param times the number of requests; of a lease, the number of parts
     * @param deadlineMicros the deadline on the server's clock in microseconds; 0 if there is none
     * @param claims the number of claims that follow
     */
    ScriptRequest addGroup(StoreRequest.Mode mode, int times, long deadlineMicros, int claims) {
        return add(number(mode), 1).add(times, 4).add(deadlineMicros, 7).add(claims, 1);
    }

    private static int number(StoreRequest.Mode mode) {
        return switch (mode) {
            case PEEK -> 0;
            case TAKE -> 1;
            case LEASE -> 2;
        };
    }

    /**
     * Adds a claim of a group.
     *
     * @param key the index of its key, from 0
     * @param claim the claim
     */
    ScriptRequest addClaim(int key, Claim claim) {
        add(key + 1, 2).addLimit(claim).addExact(claim.permits());
        return claim.limit().holdsPermits() ? addId(claim.holdId()) : this;
    }

    /**
     * Adds a claim on a ban.
     *
     * @param key the index of its key, from 0
     * @param ban the claim
     * @param claims all claims of the group
     */
    ScriptRequest addBan(int key, Claim ban, List<Claim> claims) {
        long ofCharge = 0;
        for (int i = 0; i < claims.size(); i++) {
            ofCharge |= claims.get(i).charge() == ban.charge() ? 2L << i : 0;
        }
        return add(key + 1, 2).addLimit(ban).addExact(ofCharge);
    }

    /** Adds the id of a hold; zero, which no hold has, if there is none. */
    private ScriptRequest addId(@Nullable UUID id) {
        return id == null
                ? add(0, Long.BYTES).add(0, Long.BYTES)
                : add(id.getMostSignificantBits(), Long.BYTES).add(id.getLeastSignificantBits(), Long.BYTES);
    }

    /**
     * Returns a request to renew holds.
     *
     * @param byCount the claims that took the permits, for each count
     */
    public static byte[] renew(Collection<List<Claim>> byCount) {
        return holds(1, byCount);
    }

    /** Returns a request to release holds, with the same argument as {@link #renew}. */
    public static byte[] release(Collection<List<Claim>> byCount) {
        return holds(0, byCount);
    }

    private static byte[] holds(int mode, Collection<List<Claim>> byCount) {
        ScriptRequest request = new ScriptRequest(SHORT).add(mode, 1);
        for (List<Claim> holds : byCount) {
            request.add(holds.size(), 4);
            for (Claim hold : holds) {
                request.addLimit(hold).addExact(hold.permits()).addId(hold.holdId());
            }
        }
        return request.toBytes();
    }

    /** Returns a request to refund. */
    public static byte[] refund(RefundMode mode, List<SentRefund> refunds) {
        ScriptRequest request = new ScriptRequest(SHORT).add(mode.number, 1);
        for (SentRefund one : refunds) {
            request.addLimit(one.claim)
                    .add(one.at, 7)
                    .addExact(one.claim.permits())
                    .add(one.life, 2)
                    .add(one.until, 7);
        }
        return request.toBytes();
    }

    /** Returns a request to reconcile, with the current ages of the grants. */
    public static byte[] reconcile(List<Reconciliation> reconciliations) {
        ScriptRequest request = new ScriptRequest(SHORT);
        for (Reconciliation reconciliation : reconciliations) {
            List<LostPermits> lost = reconciliation.lost();
            request.addLimit(reconciliation.claim())
                    .add(reconciliation.number(), 7)
                    .addGrants(reconciliation.agesToSend())
                    .add(lost.size(), 1);
            for (LostPermits one : lost) {
                request.add(one.life(), 2)
                        .add(Math.max(0, 1_000 * one.since()), 7)
                        .addGrants(reconciliation.ages(one.grants()));
            }
        }
        return request.toBytes();
    }

    private ScriptRequest addGrants(List<Grants> ages) {
        add(ages.size(), 4);
        for (Grants grants : ages) {
            addExact(grants.fromMillis()).addExact(grants.toMillis()).addExact(grants.permits());
        }
        return this;
    }

    /** Returns a request to settle. */
    public static byte[] settle(List<Settlement> settlements, StoreClock server) {
        ScriptRequest request = new ScriptRequest(SHORT, server.millis());
        for (Settlement one : settlements) {
            request.addLimit(one.claim())
                    .add(server.microsAt(one.deadline()), 7)
                    .add(one.usage().chargedAt(), 7)
                    .add(one.usage().reply().stamp(), 7)
                    .add(one.usage().life(), 2)
                    .addExact(one.toRefund())
                    .addExact(one.toCharge())
                    .addExact(one.most());
        }
        return request.toBytes();
    }

    /**
     * Returns a request to reset, with the life of the reset mark of each claim. It has no limits.
     *
     * @param claims the claims of the marks
     * @param deadlineMicros the deadline on the server's clock in microseconds; 0 if there is none
     */
    public static byte[] reset(List<Claim> claims, long deadlineMicros) {
        ScriptRequest request = new ScriptRequest(SHORT).add(deadlineMicros, 7);
        claims.forEach(claim -> request.add(Count.lifeOfReset(claim.limit()), 7));
        return request.toBytesWithoutLimits();
    }

    /** Returns a request to decide nothing. */
    public static byte[] decideNothing() {
        return new ScriptRequest(0).toBytes();
    }

    /** Returns the encoded request. */
    byte[] toBytes() {
        byte[] bytes = new byte[LIMITS_LENGTH + LIMIT_LENGTH * limits.size() + length];
        int at = LittleEndian.put(bytes, 0, limits.size(), 2);
        for (Claim claim : limits) {
            LimitKind.Numbers numbers = LimitKind.numbers(claim.limit(), now);
            at = LittleEndian.put(bytes, at, numbers.kind(), 1);
            at = LittleEndian.put(bytes, at, claim.limit().permits(), 7);
            at = LittleEndian.put(bytes, at, numbers.first(), 6);
            at = LittleEndian.put(bytes, at, numbers.second(), 6);
            at = LittleEndian.put(
                    bytes, at, (claim.limit().isCountingDenied() ? COUNTS_DENIED : 0) + 2 * numbers.near(), 1);
            at = LittleEndian.put(bytes, at, numbers.third(), 6);
        }
        System.arraycopy(body, 0, bytes, at, length);
        return bytes;
    }

    private byte[] toBytesWithoutLimits() {
        return Arrays.copyOf(body, length);
    }

    /** Adds the position of a limit. A request has few limits, and most often only one. */
    private ScriptRequest addLimit(Claim claim) {
        int index = limits.size() - 1;
        while (index >= 0 && !limits.get(index).limit().equals(claim.limit())) {
            index--;
        }
        if (index < 0) {
            index = limits.size();
            limits.add(claim);
        }
        return add(index + 1, 2);
    }

    private ScriptRequest addExact(long number) {
        return add(Math.min(number, Bounds.MOST_EXACT), 7);
    }

    private ScriptRequest add(long number, int size) {
        if (length + size > body.length) {
            body = Arrays.copyOf(body, 2 * (length + size));
        }
        length = LittleEndian.put(body, length, number, size);
        return this;
    }

    /** Which permits of a count are refunded. */
    public enum RefundMode {
        /** The oldest of those that were charged on behalf of another store. */
        CHARGED(0),

        /** Those of one decision. */
        DECISION(1),

        /** The oldest, of any instance. */
        OLDEST(2);

        private final int number;

        RefundMode(int number) {
            this.number = number;
        }
    }

    /**
     * A refund of permits of one count.
     *
     * @param claim the permits
     * @param at the time at which their decision was charged, in milliseconds; 0 without one
     * @param life the life of the count with the charge; 0 without one
     * @param until the time from which on nothing is refunded, in milliseconds; 0 for none
     */
    public record SentRefund(Claim claim, long at, int life, long until) {}
}
