package io.github.spillgate.spi;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/** The usage of one limit by one key, as a store has decided on a {@link Claim}. */
public final class StoreUsage implements Decision.Usage {

    /** The number of resets that the {@linkplain #life() life} of a count tells apart. */
    public static final int RESETS = 8;

    private final Claim claim;
    private final long used;
    private final boolean violated;
    private final long fitsAtMillis;
    private final long wholeAtMillis;
    private final @Nullable CounterState counter;
    private final int life;

    private StoreUsage(
            Claim claim,
            long used,
            boolean violated,
            long fitsAtMillis,
            long wholeAtMillis,
            @Nullable CounterState counter,
            int life) {
        this.claim = claim;
        this.used = used;
        this.violated = violated;
        this.fitsAtMillis = fitsAtMillis;
        this.wholeAtMillis = wholeAtMillis;
        this.counter = counter;
        this.life = life;
    }

    /**
     * Returns the usage after a decision.
     *
     * @param claim the claim that was decided
     * @param used the used permits after the decision
     * @param violated whether the claim did not fit
     * @param fitsAtMillis the time at which the claim fits, in milliseconds of the store's clock; used only if the
     *     decision is a denial
     * @param wholeAtMillis the time at which no permit counts as used, in milliseconds of the store's clock
     * @return the usage
     */
    public static StoreUsage of(Claim claim, long used, boolean violated, long fitsAtMillis, long wholeAtMillis) {
        return new StoreUsage(claim, used, violated, fitsAtMillis, wholeAtMillis, null, 0);
    }

    /**
     * Returns the usage of a concurrency limit after a decision.
     *
     * @param claim the claim that was decided
     * @param used the permits that are held
     * @param violated whether the claim did not fit
     * @param now the time of the decision, in milliseconds of the store's clock
     * @param wholeAt the time at which the last hold expires if none is renewed
     * @return the usage
     */
    public static StoreUsage ofHolds(Claim claim, long used, boolean violated, long now, long wholeAt) {
        // It is not known when a holder will release its permits.
        long fitsAt = violated ? now + claim.limit().retryAfter().toMillis() : now;
        return new StoreUsage(claim, used, violated, fitsAt, wholeAt, null, 0);
    }

    /**
     * Returns the usage of a counter after a decision.
     *
     * @param claim the claim that was decided
     * @param state the counter after the decision, in the current window
     * @param violated whether the claim did not fit
     * @param denied whether the decision is a denial, because of this claim or another one
     * @param now the time of the decision, in milliseconds of the store's clock
     * @return the usage
     */
    public static StoreUsage ofCounter(Claim claim, CounterState state, boolean violated, boolean denied, long now) {
        Limit limit = claim.limit();
        long fitsAt = denied ? state.fitsAt(limit, claim.permits(), now) : now;
        return new StoreUsage(claim, state.used(limit, now), violated, fitsAt, state.wholeAt(limit, now), state, 0);
    }

    /**
     * Returns the usage of a token bucket after a decision.
     *
     * @param claim the claim that was decided
     * @param state the bucket after the decision, at its time
     * @param violated whether the claim did not fit
     * @param denied whether the decision is a denial, because of this claim or another one
     * @return the usage
     */
    public static StoreUsage ofBucket(Claim claim, BucketState state, boolean violated, boolean denied) {
        Limit limit = claim.limit();
        long fitsAt = denied ? state.fitsAt(limit, claim.permits()) : state.at();
        return new StoreUsage(claim, state.used(limit), violated, fitsAt, state.wholeAt(limit), null, 0);
    }

    /**
     * Returns this usage with the life of the count.
     *
     * @param life the life, 0 to 65,535, as in {@link #life()}
     * @return the usage
     */
    public StoreUsage withLife(int life) {
        return new StoreUsage(claim, used, violated, fitsAtMillis, wholeAtMillis, counter, life);
    }

    long fitsAtMillis() {
        return fitsAtMillis;
    }

    long wholeAtMillis() {
        return wholeAtMillis;
    }

    /** Returns this usage for some of its permits, which fitted at that time. */
    StoreUsage part(long permits, long at) {
        return new StoreUsage(claim.withPermits(permits), used, false, at, wholeAtMillis, null, life);
    }

    /**
     * Returns this usage by a clock that is ahead by {@code millis}, with or without a refund. It has no state of a
     * counter: that has the times of one server's clock.
     */
    StoreUsage later(long millis, boolean refunded) {
        long left = refunded && !claim.limit().isCountingDenied() ? Math.max(0, used - claim.permits()) : used;
        return new StoreUsage(claim, left, violated, fitsAtMillis + millis, wholeAtMillis + millis, null, life);
    }

    @Override
    public String key() {
        return claim.key();
    }

    @Override
    public Limit limit() {
        return claim.limit();
    }

    /**
     * Returns the claim on the limit.
     *
     * @return the claim
     */
    public Claim claim() {
        return claim;
    }

    /**
     * Returns the counter after the decision.
     *
     * @return the state in the window of the decision, by the store's clock; null if it is not a counter, or not known
     */
    public @Nullable CounterState counter() {
        return counter;
    }

    /**
     * Returns the life of the count in the store, which tells it from an earlier count of the same identity, and the
     * number of its resets: the life divided by {@link #RESETS} is the same until the count expires, also after refunds
     * and resets. So if another usage has another one, before all permits of this usage have expired, then the store
     * has lost data. The rest is the number of resets, modulo {@link #RESETS}.
     *
     * @return 8 to 65,535; 0 if the store has nothing of the count, or does not distinguish lives
     */
    public int life() {
        return life;
    }

    @Override
    public long cost() {
        return claim.permits();
    }

    @Override
    public long used() {
        return used;
    }

    @Override
    public long remaining() {
        return Math.max(0, claim.limit().capacity() - used);
    }

    @Override
    public boolean isViolated() {
        return violated;
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
        return "Usage[" + claim.limit() + ", used=" + used + ", wholeAt=" + wholeAt() + "]";
    }
}
