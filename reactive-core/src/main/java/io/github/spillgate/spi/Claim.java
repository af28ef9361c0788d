package io.github.spillgate.spi;

import io.github.spillgate.Limit;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * One limit of one {@code Charge}, as passed to a {@link LimitStore}: the identity of the count, the limit and the
 * cost. The {@code RateLimiter} creates claims, and ensures for every store that those of a decision have different
 * identities, and that no cost is above its limit.
 */
public interface Claim {

    /**
     * {@return the name of the count: limiter, limit, kind, window, resolution or alignment, and the encoded key with
     * its group} It is printable ASCII without spaces, at most 500 characters. It does not contain the permits, so they
     * can change without losing the history.
     */
    String identity();

    /**
     * {@return an object that represents the identity in this process, for use as the key of a map} It equals the
     * handle of a claim if and only if their identities are equal, is comparable with other handles, and is cheaper to
     * create than the identity, which is its {@code toString()}.
     */
    Object handle();

    /** {@return the name of the limiter that claims, of the characters {@code A-Z a-z 0-9 . _ -}} */
    String limiter();

    /**
     * {@return the key that is charged, as the caller passed it, not encoded; if it has more than 128 characters, the
     * digest that the identity contains}
     */
    String key();

    /** {@return the limit} */
    Limit limit();

    /** {@return the cost: the number of permits, never negative} */
    long permits();

    /**
     * Returns the same claim with another cost.
     *
     * @param permits the cost, not negative and at most the limit's permits
     * @return a claim on the same count
     */
    Claim withPermits(long permits);

    /** {@return the number of its charge in the call} A ban counts denials by the limits of its own charge. */
    default int charge() {
        return 0;
    }

    /**
     * {@return the id under which this claim takes permits of a {@linkplain Limit.Concurrent concurrency limit}, unique
     * among all processes; null for other limits, and for a peek} They are released and renewed by it, and a claim that
     * is sent twice takes them once.
     */
    default @Nullable UUID holdId() {
        return null;
    }

    /**
     * Returns the same claim with an id under which it takes permits.
     *
     * @param id the id
     * @return a claim on the same count
     */
    default Claim withHoldId(UUID id) {
        throw new UnsupportedOperationException(
                "claim " + this + " cannot hold permits: expected one of a RateLimiter, for example in a test on one");
    }
}
