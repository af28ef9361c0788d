package io.github.spillgate.spi;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * The usage of one limit by one key, as a store has decided on a {@link Claim}, with everything that a refund or a
 * settlement of this claim needs.
 *
 * @param reply the reply of the store, with the time of the decision
 * @param claim the claim that was decided
 * @param used the used permits after the decision
 * @param isViolated whether the claim did not fit
 * @param fitsAtMillis the time at which the claim fits, in milliseconds of the store's clock; used only if the decision
 *     is a denial
 * @param wholeAtMillis the time at which no permit counts as used, in milliseconds of the store's clock
 * @param life the life of the count in the store, which tells it from an earlier count of the same identity, and the
 *     number of its resets: 8 to 65,535; 0 if the store has nothing of the count, or does not distinguish lives. The
 *     life divided by {@link #RESETS} is the same until the count expires, also after refunds and resets. So if another
 *     usage has another one, before all permits of this usage have expired, then the store has lost data. The rest is
 *     the number of resets, modulo {@link #RESETS}
 * @param windows the windows of a counter after the decision, or the period of a quota; null for other limits, and for
 *     a counter of a local store. A usage that was made from another one has none: see {@link #inStore()}
 * @param isLease whether the permits are leased, so that they are charged at the end of the lease time
 * @param original what the store has replied, if this usage was made from that; null otherwise
 */
public record StoreUsage(
        Reply reply,
        Claim claim,
        long used,
        boolean isViolated,
        long fitsAtMillis,
        long wholeAtMillis,
        int life,
        @Nullable Windows windows,
        boolean isLease,
        @Nullable StoreUsage original)
        implements Decision.Usage {

    /** The number of resets that the {@linkplain #life() life} of a count tells apart. */
    public static final int RESETS = 8;

    /**
     * {@return the usage after a decision, of a store that does not distinguish lives}
     *
     * @param reply the reply of the store
     * @param claim the claim that was decided
     * @param used the used permits after the decision
     * @param isViolated whether the claim did not fit
     * @param fitsAt the time at which the claim fits, in milliseconds
     * @param wholeAt the time at which no permit counts as used, in milliseconds
     */
    public static StoreUsage of(Reply reply, Claim claim, long used, boolean isViolated, long fitsAt, long wholeAt) {
        return new StoreUsage(reply, claim, used, isViolated, fitsAt, wholeAt, 0, null, false, null);
    }

    StoreUsage leased() {
        return new StoreUsage(
                reply, claim, used, isViolated, fitsAtMillis, wholeAtMillis, life, windows, true, original);
    }

    /**
     * {@return this usage as a part of a decision by the clock of another server, with its times converted}
     *
     * @param decision the time of that decision
     */
    public StoreUsage shownAt(Reply decision) {
        // The end of a period is a time of the calendar, the same on all servers.
        long ahead = limit() instanceof Limit.Quota ? 0 : decision.at() - reply.at();
        long fitsThen = fitsAtMillis + ahead;
        long wholeThen = wholeAtMillis + ahead;
        return new StoreUsage(decision, claim, used, isViolated, fitsThen, wholeThen, life, null, false, inStore());
    }

    /**
     * {@return what the store has replied about this count, by the clock of the server that counts} That is this usage,
     * unless it was made from that of a lease, converted to the clock of another server, or shows permits of other
     * processes as used.
     */
    public StoreUsage inStore() {
        return original == null ? this : original;
    }

    /**
     * {@return the time at which the permits are charged, which a refund needs} That is the time of the reply, or of a
     * lease the end of its lease time. While permits of a log are leased, others are charged together with them: in the
     * slot that expires last.
     */
    public long chargedAt() {
        long charged = isLease ? reply.at() + limit().leaseTime().toMillis() : reply.at();
        return limit() instanceof Limit.Log log
                ? Math.max(
                        charged,
                        wholeAtMillis
                                - log.window().toMillis()
                                - log.resolution().toMillis())
                : charged;
    }

    @Override
    public String key() {
        return claim.key();
    }

    @Override
    public Limit limit() {
        return claim.limit();
    }

    @Override
    public long cost() {
        return claim.permits();
    }

    @Override
    public long remaining() {
        return Math.max(0, limit().capacity() - used);
    }

    @Override
    public Instant fitsAt() {
        return Instant.ofEpochMilli(fitsAtMillis);
    }

    @Override
    public Instant wholeAt() {
        return Instant.ofEpochMilli(wholeAtMillis);
    }

    /** Returns the usage for log messages, without the key. */
    @Override
    public String toString() {
        return "Usage[" + limit() + ", used=" + used + ", wholeAt=" + wholeAt() + "]";
    }

    /** The windows of a {@linkplain Limit.Counter counter}, or the period of a {@linkplain Limit.Quota quota}. */
    public interface Windows {

        /** {@return the start of the current window, in milliseconds of the store's clock} */
        long start();

        /** {@return the permits that were taken in the previous window} */
        long previous();

        /** {@return the permits that were taken in the current window} */
        long current();

        /** {@return whether this decision is the first of the period of a quota that has reached its mark} */
        default boolean isNear() {
            return false;
        }
    }
}
