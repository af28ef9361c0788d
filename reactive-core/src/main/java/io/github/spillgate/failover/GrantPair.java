package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import org.jspecify.annotations.Nullable;

/**
 * The two results of one request for permits that both the primary store and the fallback decided on. When both are
 * known, it makes sure that the permits are charged if the request was allowed, and only once as far as can be known.
 *
 * <table>
 * <caption>What is done when both results are known</caption>
 * <tr><th>fallback</th><th>primary store, late</th><th>what is done</th></tr>
 * <tr><td>allowed</td><td>allowed</td>
 *     <td>the local grant is cancelled, unless the charge was lost or reset, or may be: then the charge
 *     is refunded. What was refunded of the grant, also by a settlement, is refunded of the charge</td></tr>
 * <tr><td>allowed</td><td>denied, or failed without charging</td><td>the local grant is handed over</td></tr>
 * <tr><td>allowed</td><td>no reply</td><td>the local grant is handed over, and is perhaps charged twice</td></tr>
 * <tr><td>denied</td><td>allowed</td>
 *     <td>the caller gets the decision of the primary store if it does not have that of the fallback yet; otherwise the
 *     charge is refunded in the primary store</td></tr>
 * <tr><td>allowed without a charge ({@link Fallback#allow()})</td><td>allowed, or no reply</td>
 *     <td>permits of concurrency limits are released, because the caller cannot release them; others stay
 *     charged</td></tr>
 * <tr><td>denied</td><td>no reply</td>
 *     <td>permits of concurrency limits are released, by their id; others stay charged if they were</td></tr>
 * </table>
 *
 * <p>Until both are known, nothing is handed over on these counts.
 */
final class GrantPair {
    // Design notes.
    //
    // Invariant: the permits of a decision of the fallback are in one place, and a refund or a settlement changes that
    // place. Under each limit they are
    //
    //   granted    in the ledger of the fallback, to be handed over;
    //   moved      in the primary store, which has charged them. The ledger no longer counts them; or
    //   redeemed   refunded or settled, in the place in which they were.
    //
    // The charge is older than the grant, and expires earlier. So a refund must not take the one for the other, and
    // there is one step from granted to each of the others (PermitUse): of a late reply and a
    // refund at the same time, the later one sees the earlier one.

    private static final AtomicReferenceFieldUpdater<GrantPair, @Nullable Object> FIRST_RESULT =
            AtomicReferenceFieldUpdater.newUpdater(GrantPair.class, Object.class, "firstResult");

    /** The result of a store that charged nothing. */
    private static final Object NOT_CHARGED = new Object();

    /** The result of a primary store that never replied. */
    private static final Object NO_REPLY = new Object();

    private final LocalGrants grants;
    private final List<Claim> claims;
    private volatile @Nullable Object firstResult;
    private volatile boolean open;

    /** Whether the reply of the primary store fits together with local grants. Written before that is a result. */
    private boolean fits;

    /**
     * Creates a pair without results.
     *
     * @param claims the permits that the request takes; none if it takes no permits
     */
    GrantPair(LocalGrants grants, List<Claim> claims) {
        this.grants = grants;
        this.claims = claims;
    }

    /** Notes that the fallback is about to be asked, after the primary store was asked. */
    void open() {
        open = true;
        grants.beginCall(claims);
    }

    /** Returns whether both stores were asked. */
    boolean isOpen() {
        return open;
    }

    /**
     * Notes a reply of the primary store that was not emitted.
     *
     * @param fits whether it fits together with local grants. Then it counts as granted here, and may still be emitted
     *     if the fallback denies the request
     */
    void primaryReplied(@Nullable Object reply, boolean fits) {
        this.fits = fits;
        match(reply == null ? NOT_CHARGED : reply, false);
    }

    /** Notes that the primary store has failed, or was given up. */
    void primaryFailed(Throwable error) {
        match(Kind.UNANSWERED.isOf(error) ? NO_REPLY : NOT_CHARGED, false);
    }

    /**
     * Notes the result of the fallback.
     *
     * @param decision the decision; null if there is none, or the fallback failed
     * @return the decision of the primary store, if the caller gets that one instead
     */
    @Nullable
    StoreDecision fallbackDecided(@Nullable Object decision) {
        StoreDecision instead = match(decision == null ? NOT_CHARGED : decision, true);
        if (decision instanceof StoreDecision granted && granted.isCharged()) {
            grants.granted(granted);
        }
        return instead;
    }

    private @Nullable StoreDecision match(Object result, boolean byFallback) {
        if (FIRST_RESULT.compareAndSet(this, null, result)) {
            return null;
        }
        Object other = Objects.requireNonNull(firstResult);
        try {
            return byFallback ? resolve(result, other, true) : resolve(other, result, false);
        } finally {
            grants.endCall(claims);
        }
    }

    private @Nullable StoreDecision resolve(Object local, Object remote, boolean canReplace) {
        StoreDecision allowed = local instanceof StoreDecision decision && decision.isAllowed() ? decision : null;
        if (remote instanceof StoreDecision charged && charged.isCharged()) {
            if (allowed == null && canReplace && fits) {
                return charged;
            } else if (allowed == null) {
                grants.refundUnused(charged);
            } else if (allowed.isCharged()) {
                grants.cancel(allowed, charged, fits);
            } else {
                grants.releaseUnused(claims);
            }
        } else if (remote == NO_REPLY && allowed != null && allowed.isCharged()) {
            grants.grantedWithUnknownCharge(allowed);
        } else if (remote == NO_REPLY) {
            grants.releaseUnused(claims);
        }
        return null;
    }
}
