package io.github.spillgate.spi;

import io.github.spillgate.Limit;
import java.util.List;

/**
 * A request for a decision on claims.
 *
 * @param claims at least one claim, no two with the same identity, none with a cost above its limit's permits
 * @param mode what the store does if the claims fit
 * @param parts of a lease, the number of parts of the permits that are left, of which it takes at most one; 1 otherwise
 * @param deadline the last moment at which the store may take permits, in nanoseconds of {@code Schedulers.parallel()};
 *     {@link LimitStore#NO_DEADLINE} if there is none
 */
public record StoreRequest(List<Claim> claims, Mode mode, int parts, long deadline) {

    /** What a store does if the claims fit. */
    public enum Mode {
        /** Takes nothing: returns the decision that taking the permits would make. */
        PEEK,

        /** Takes the permits of all claims. */
        TAKE,

        /**
         * Takes permits of one claim in advance, which the caller spends without asking the store: as many as the claim
         * asks for, but at most one part of those that are left. They are charged as if they were taken at the end of
         * the limit's {@linkplain Limit#leaseTime() lease time}, and may be spent until then. The store replies with
         * {@link StoreDecision#ofLease}, or with nothing if it does not lease.
         */
        LEASE
    }

    /**
     * {@return a request to take the permits of all claims, or none, without a deadline}
     *
     * @param claims the claims
     */
    public static StoreRequest take(List<Claim> claims) {
        return take(claims, LimitStore.NO_DEADLINE);
    }

    /**
     * {@return a request to take the permits of all claims, or none, until a deadline}
     *
     * @param claims the claims
     * @param deadline the last moment at which the store may take permits
     */
    public static StoreRequest take(List<Claim> claims, long deadline) {
        return new StoreRequest(claims, Mode.TAKE, 1, deadline);
    }

    /**
     * {@return a request that takes nothing}
     *
     * @param claims the claims
     */
    public static StoreRequest peek(List<Claim> claims) {
        return new StoreRequest(claims, Mode.PEEK, 1, LimitStore.NO_DEADLINE);
    }

    /**
     * {@return a request for a lease}
     *
     * @param claim a claim on a {@linkplain Limit#leased() leased} limit, for the most permits to take
     * @param parts the number of parts, at least one
     * @param deadline the last moment at which the store may take permits
     */
    public static StoreRequest lease(Claim claim, int parts, long deadline) {
        return new StoreRequest(List.of(claim), Mode.LEASE, parts, deadline);
    }
}
