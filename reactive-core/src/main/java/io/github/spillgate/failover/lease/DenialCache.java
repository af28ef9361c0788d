package io.github.spillgate.failover.lease;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * The denials of the primary store that still hold. A request for as many permits or more is denied without asking the
 * store.
 *
 * <p>Bounded in number and time. A denial that is dropped costs one request to the store, and nothing else.
 */
public final class DenialCache {
    // Design notes.
    //
    // Invariant: a request is denied here only if the store would deny it, as long as permits are not refunded, reset
    // or raised elsewhere, and the store's clock does not jump.
    //
    // The room of a claim is its limit's permits without its cost. A claim fits if the permits in use are at most its
    // room. The store has replied that a claim does not fit before a time, unless permits are refunded; so no claim
    // with as little room, or less, fits before that time. Only the room is compared: a cheaper claim has more room,
    // and so has a claim under a limit that was raised. Of a bucket the rate is compared too: with a higher one, a
    // claim fits earlier.
    //
    // That time is on the store's clock, in whole milliseconds, like the time of the reply. The store's clock showed
    // the time of the reply at some moment between sending and reply; at the sending, it may have been at any point
    // before the end of that millisecond. So one millisecond less than the wait, counted from the sending, is certain.
    //
    // A denial of a concurrency limit is not cached, because a holder of any instance may release its permits at any
    // time.
    //
    // A refund or reset takes effect at once: a denial does not hold if its request was sent before the refund ended.
    // For that, the time of the last refund is stored.
    //
    // Each identity has a slot, which others may share. A slot stores one denial, and the time of the last refund of
    // any of its identities. So nothing grows, and there are no locks. Identities that share a slot make requests that
    // they would not have to make.

    private static final int SLOTS = 1 << 14;
    private static final long NO_ROOM = Long.MIN_VALUE;
    private static final long GRAIN = TimeUnit.MILLISECONDS.toNanos(1);

    private final long longest;
    private final AtomicReferenceArray<@Nullable CachedDenial> denials;
    private final AtomicLongArray freedAt;

    /**
     * Creates a cache.
     *
     * @param longest the longest time for which a denial is cached; zero disables the cache
     */
    public DenialCache(Duration longest) {
        this.longest = longest.toNanos();
        int slots = this.longest == 0 ? 0 : SLOTS;
        denials = new AtomicReferenceArray<>(slots);
        freedAt = new AtomicLongArray(slots);
        long now = Time.nanos();
        for (int i = 0; i < slots; i++) {
            freedAt.set(i, now - 1);
        }
    }

    /**
     * Returns the denial of these claims if it is certain, with the last known usage of each count that is cached; null
     * otherwise.
     */
    @Nullable
    public StoreDecision find(List<Claim> claims) {
        if (longest == 0) {
            return null;
        }
        for (Claim claim : claims) {
            CachedDenial known = known(claim);
            if (known != null && known.covers(room(claim), rate(claim)) && !isRecorded(claims, claim)) {
                long now = Time.nanos();
                if (holds(known, now)) {
                    Reply reply = new Reply(Source.CACHED_DENIAL, known.at(now));
                    return claims.size() == 1
                            ? StoreDecision.ofTake(reply, List.of(known.usage(reply, claim, true)))
                            : denial(claims, reply, now);
                }
            }
        }
        return null;
    }

    /** Returns a denial from the present entries; null if the one that was found was replaced or has expired. */
    private @Nullable StoreDecision denial(List<Claim> claims, Reply reply, long now) {
        List<StoreUsage> usages = new ArrayList<>(claims.size());
        boolean isDenied = false;
        for (Claim claim : claims) {
            CachedDenial known = known(claim);
            if (known != null && holds(known, now)) {
                boolean violated = known.covers(room(claim), rate(claim));
                isDenied |= violated;
                usages.add(known.usage(reply, claim, violated));
            }
        }
        return isDenied ? StoreDecision.ofTake(reply, usages) : null;
    }

    private @Nullable CachedDenial known(Claim claim) {
        CachedDenial known = denials.get(slot(claim.handle()));
        return known != null && known.handle.equals(claim.handle()) ? known : null;
    }

    /** Caches a reply of the store if it is a denial, from the time at which the request was sent. */
    public void remember(StoreDecision decision, long sentAt) {
        if (longest == 0 || decision.isAllowed()) {
            return;
        }
        long repliedAt = Time.nanos();
        long at = decision.reply().at();
        for (StoreUsage usage : decision.usages()) {
            if (usage.limit().holdsPermits()) {
                continue;
            }
            long fitsAt = usage.fitsAtMillis();
            long held = Math.min(longest(usage), TimeUnit.MILLISECONDS.toNanos(fitsAt - at) - GRAIN);
            boolean denies = usage.isViolated() && held > 0;
            remember(new CachedDenial(
                    usage.claim().handle(),
                    denies ? room(usage.claim()) : NO_ROOM,
                    rate(usage.claim()),
                    sentAt,
                    repliedAt,
                    sentAt + (denies ? held : longest),
                    at,
                    fitsAt,
                    usage.used(),
                    usage.wholeAtMillis()));
        }
    }

    /** Returns how long a denial is cached. Other instances refund leased permits after a lease time. */
    private long longest(StoreUsage usage) {
        Limit limit = usage.limit();
        return limit.isLeased() || Leases.showsLeases(usage)
                ? Math.min(longest, limit.leaseTime().toNanos())
                : longest;
    }

    /** Replaces the denial in the slot, unless that covers the new one. */
    private void remember(CachedDenial denial) {
        int slot = slot(denial.handle);
        CachedDenial known = denials.get(slot);
        boolean isCovered = known != null
                && known.covers(denial.room, denial.rate)
                && known.handle.equals(denial.handle)
                && holds(known, denial.repliedAt);
        if (!isCovered && holds(denial, denial.repliedAt)) {
            denials.set(slot, denial);
        }
    }

    /**
     * Drops the cached denials of these counts: before a refund or reset, because of all that are cached then, and
     * after it, because of those cached since; in any case before the caller is notified, which may retry at once.
     */
    public Mono<Void> freeing(List<Claim> claims, Mono<Void> change) {
        return Mono.defer(() -> {
            freed(claims);
            return change.doOnTerminate(() -> freed(claims)).doOnCancel(() -> freed(claims));
        });
    }

    /** Drops the cached denials of these counts, because permits are refunded. */
    public void freed(List<Claim> claims) {
        if (longest == 0) {
            return;
        }
        long now = Time.nanos();
        for (Claim claim : claims) {
            freedAt.set(slot(claim.handle()), now);
        }
    }

    private boolean holds(CachedDenial denial, long now) {
        return denial.until - now > 0 && denial.sentAt - freedAt.get(slot(denial.handle)) > 0;
    }

    private static int slot(Object handle) {
        int hash = handle.hashCode();
        return (hash ^ hash >>> 14) & (SLOTS - 1);
    }

    private static long room(Claim claim) {
        return claim.limit().capacity() - claim.permits();
    }

    /** Returns the rate at which a bucket returns permits; 0 for others, of which no setting changes the time. */
    private static long rate(Claim claim) {
        return claim.limit() instanceof Limit.Bucket ? claim.limit().permits() : 0;
    }

    /** Returns whether the store has to record a denial by one of the claims. A ban counts none that a ban denies. */
    private static boolean isRecorded(List<Claim> claims, Claim denied) {
        for (Claim claim : claims) {
            boolean isBanned = !denied.limit().takesPermits()
                    && !claim.limit().takesPermits()
                    && claim.charge() == denied.charge();
            if (claim.limit().isCountingDenied() && !isBanned) {
                return true;
            }
        }
        return false;
    }

    /**
     * The state of a count when the store denied. It is copied from the usage, which is larger.
     *
     * @param handle the identity of the count
     * @param room a claim with at most this room is denied
     * @param rate of a bucket, the highest rate at which that is certain
     * @param sentAt the time at which the request was sent, in nanoseconds
     * @param repliedAt the time at which the reply arrived, in nanoseconds
     * @param until the time at which the denial expires, in nanoseconds
     * @param storeAt the time of the decision, in milliseconds of the store's clock
     * @param fitsAt the time at which the cost fits, by that clock
     * @param used the permits in use
     * @param wholeAt the time at which no permits are in use any more, by that clock
     */
    private record CachedDenial(
            Object handle,
            long room,
            long rate,
            long sentAt,
            long repliedAt,
            long until,
            long storeAt,
            long fitsAt,
            long used,
            long wholeAt) {

        /** Returns whether a claim with this room, on a bucket with this rate, is denied as well. */
        boolean covers(long otherRoom, long otherRate) {
            return room >= otherRoom && rate >= otherRate;
        }

        /** Returns the usage as last known. */
        StoreUsage usage(Reply reply, Claim claim, boolean violated) {
            return StoreUsage.of(reply, claim, used, violated, violated ? fitsAt : reply.at(), wholeAt);
        }

        /**
         * Returns the earliest time that the store's clock can show now. A retry time that is counted from here is not
         * earlier than the one that the store has replied.
         */
        long at(long now) {
            return storeAt + Math.max(0, TimeUnit.NANOSECONDS.toMillis(now - repliedAt));
        }
    }
}
