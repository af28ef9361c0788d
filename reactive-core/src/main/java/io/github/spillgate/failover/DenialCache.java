package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Source;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * The denials that still hold: who asks for as much as has been denied lately is denied here, without a trip.
 *
 * <p>Only a few are remembered, and each for a short time at most. To forget one costs a trip and nothing else.
 */
final class DenialCache {
    // Design notes.
    //
    // What has to hold: nobody is denied here whom the store would have allowed, as long as nobody gives back, resets
    // or raises anything elsewhere, and the store's clock does not jump.
    //
    // A claim fits if what is used is at most its limit's permits without its cost: its room. The store has said that a
    // claim does not fit before an instant, as long as nothing is given back; so no claim with as little room, or less,
    // fits before that instant. That is all that is compared: a cheaper claim has more room, and so has one under a
    // limit that has been raised.
    //
    // The instant is one of the store's clock, and is told in whole milliseconds, as is the time of the answer. Between
    // the sending and the answer the store's clock has shown that time: at the sending it may have been anywhere before
    // the end of that millisecond. So counted from the sending, one millisecond less than the wait is certain.
    //
    // What is given back here takes effect at once: a denial that was sent before the giving back was answered does not
    // hold. For that, the time of the last giving back is kept.
    //
    // Every identity has a place, which it may share with others. There is room for one denial in it, and for the time
    // of the last giving back to any of them. So nothing grows, and nobody waits for a lock. Those who share a place
    // with somebody who is denied as well, or gives back, make a trip that they need not make.

    private static final int PLACES = 1 << 14;
    private static final long NO_ROOM = Long.MIN_VALUE;
    private static final long GRAIN = TimeUnit.MILLISECONDS.toNanos(1);

    private final long longest;
    private final AtomicReferenceArray<@Nullable CachedDenial> denials;
    private final AtomicLongArray freedAt;

    /** Denials that are remembered for so long at most; if it is zero, not at all. */
    DenialCache(Duration longest) {
        this.longest = longest.toNanos();
        int places = this.longest == 0 ? 0 : PLACES;
        denials = new AtomicReferenceArray<>(places);
        freedAt = new AtomicLongArray(places);
        long now = Deadlines.now();
        for (int i = 0; i < places; i++) {
            freedAt.set(i, now - 1);
        }
    }

    /**
     * The denial of these claims, if it is certain. It tells of those counts of which something is known, as the store
     * has told of them last.
     */
    @Nullable
    Decision find(List<Claim> claims) {
        if (longest == 0 || isRecorded(claims)) {
            return null;
        }
        for (Claim claim : claims) {
            CachedDenial known = known(claim);
            if (known != null && known.room >= room(claim)) {
                long now = Deadlines.now();
                if (holds(known, now)) {
                    return denial(claims, known.at(now), now);
                }
            }
        }
        return null;
    }

    /** The denial as it is read now; null if what denied has gone since it was found, or is not the same any more. */
    private @Nullable Decision denial(List<Claim> claims, long at, long now) {
        List<Usage> usages = new ArrayList<>(claims.size());
        boolean isDenied = false;
        for (Claim claim : claims) {
            CachedDenial known = known(claim);
            if (known != null && holds(known, now)) {
                boolean violated = known.room >= room(claim);
                isDenied |= violated;
                usages.add(Usage.of(claim, known.used, violated, violated ? known.fitsAt : at, known.wholeAt));
            }
        }
        return isDenied ? Decision.ofTake(Source.CACHED_DENIAL, at, usages) : null;
    }

    private @Nullable CachedDenial known(Claim claim) {
        CachedDenial known = denials.get(place(claim.handle()));
        return known != null && known.handle.equals(claim.handle()) ? known : null;
    }

    /** Remembers what the store has answered, if that is a denial; counted from when it was asked. */
    void remember(@Nullable Decision decision, long sentAt) {
        if (longest == 0 || decision == null || decision.isAllowed()) {
            return;
        }
        long heardAt = Deadlines.now();
        long at = decision.at().toEpochMilli();
        for (Usage usage : decision.limits()) {
            long fitsAt = usage.fitsAt().toEpochMilli();
            long held = Math.min(longest, TimeUnit.MILLISECONDS.toNanos(fitsAt - at) - GRAIN);
            boolean denies = usage.isViolated() && held > 0;
            remember(new CachedDenial(
                    usage.claim().handle(),
                    denies ? room(usage.claim()) : NO_ROOM,
                    sentAt,
                    heardAt,
                    sentAt + (denies ? held : longest),
                    at,
                    fitsAt,
                    usage.used(),
                    usage.wholeAt().toEpochMilli()));
        }
    }

    /** In place of another one, unless that says as much about the same count. */
    private void remember(CachedDenial heard) {
        int place = place(heard.handle);
        CachedDenial known = denials.get(place);
        boolean isCovered = known != null
                && known.room >= heard.room
                && known.handle.equals(heard.handle)
                && holds(known, heard.heardAt);
        if (!isCovered && holds(heard, heard.heardAt)) {
            denials.set(place, heard);
        }
    }

    /**
     * Drops the cached denials of these counts: before a refund or reset, because of all that are cached then, and
     * after it, because of those cached since; in any case before the caller is notified, which may retry at once.
     */
    Mono<Void> freeing(List<Claim> claims, Mono<Void> change) {
        return Mono.defer(() -> {
            freed(claims);
            return change.doOnTerminate(() -> freed(claims)).doOnCancel(() -> freed(claims));
        });
    }

    /** Drops the cached denials of these counts, because permits are refunded. */
    void freed(List<Claim> claims) {
        if (longest == 0) {
            return;
        }
        long now = Deadlines.now();
        for (Claim claim : claims) {
            freedAt.set(place(claim.handle()), now);
        }
    }

    private boolean holds(CachedDenial denial, long now) {
        return denial.until - now > 0 && denial.sentAt - freedAt.get(place(denial.handle)) > 0;
    }

    private static int place(Object handle) {
        int hash = handle.hashCode();
        return (hash ^ hash >>> 14) & (PLACES - 1);
    }

    private static long room(Claim claim) {
        return claim.limit().permits() - claim.permits();
    }

    /** Whether the store wants to hear of every denial. */
    private static boolean isRecorded(List<Claim> claims) {
        for (Claim claim : claims) {
            if (claim.limit().isCountingDenied()) {
                return true;
            }
        }
        return false;
    }

    /**
     * What the store has said of a count when it denied.
     *
     * @param handle stands for the name of the count
     * @param room whoever has no more than this is denied
     * @param sentAt when the store was asked, in nanoseconds
     * @param heardAt when it had answered
     * @param until when this may be true no more
     * @param storeAt when it answered, in milliseconds of its clock
     * @param fitsAt when so much fits, by that clock
     * @param used how much was used
     * @param wholeAt when nothing is used any more, by that clock
     */
    private record CachedDenial(
            Object handle,
            long room,
            long sentAt,
            long heardAt,
            long until,
            long storeAt,
            long fitsAt,
            long used,
            long wholeAt) {

        /**
         * What the store's clock shows at the least: whoever comes back later by the wait that is counted from here
         * does not come before the one who was told by the store itself.
         */
        long at(long now) {
            return storeAt + Math.max(0, TimeUnit.NANOSECONDS.toMillis(now - heardAt));
        }
    }
}
