package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;

/**
 * The times at which counts were last reset, for as long as a reply to an earlier request may arrive. Bounded: if there
 * are too many resets, the older half is dropped, and all requests from before its end count as made before a reset.
 */
final class ResetLog {

    private static final int MOST = 50_000;

    /** Late replies are accepted for a minute after the deadline, which is a minute at most. */
    private static final long LONGEST = TimeUnit.MINUTES.toNanos(2);

    private volatile ConcurrentMap<Object, Long> newer = new ConcurrentHashMap<>();
    private volatile ConcurrentMap<Object, Long> older = new ConcurrentHashMap<>();
    private final UnansweredCalls unfinished = new UnansweredCalls();
    private long newerSince = Deadlines.now();
    private volatile long droppedUntil = newerSince;

    /** Notes that these counts are being reset from now on. */
    void begin(List<Claim> claims) {
        note(claims);
        unfinished.begin(claims);
    }

    /** Notes that the reset has ended. */
    void end(List<Claim> claims) {
        note(claims);
        unfinished.end(claims);
    }

    /** Notes that these counts are being reset, or have just been. */
    synchronized void note(List<Claim> claims) {
        long now = Deadlines.now();
        if (now - newerSince > LONGEST || newer.size() >= MOST) {
            droppedUntil = newerSince;
            older = newer;
            newer = new ConcurrentHashMap<>();
            newerSince = now;
        }
        for (Claim claim : claims) {
            newer.put(claim.handle(), now);
        }
    }

    /** Returns whether a reset may have removed what was charged since that time, or may yet. */
    boolean mayRemove(List<Claim> claims, long nanos) {
        // In this order: the end of a reset is noted before the reset counts as finished.
        return unfinished.onAny(claims) || isAnySince(claims, nanos);
    }

    /** Returns whether one of these counts may have been reset at that time or later. */
    boolean isAnySince(List<Claim> claims, long nanos) {
        // No reset was ever noted. In this order: the newer times become the older ones.
        if (newer.isEmpty() && older.isEmpty()) {
            return false;
        }
        for (Claim claim : claims) {
            if (isSince(newer, claim, nanos) || isSince(older, claim, nanos)) {
                return true;
            }
        }
        // Read last: if the maps were replaced during the search, this is set by now.
        return nanos - droppedUntil < 0;
    }

    /** Returns whether this count was reset in the last minutes. */
    boolean isKnown(Claim claim) {
        return newer.containsKey(claim.handle()) || older.containsKey(claim.handle());
    }

    private static boolean isSince(ConcurrentMap<Object, Long> some, Claim claim, long nanos) {
        Long reset = some.get(claim.handle());
        return reset != null && reset - nanos >= 0;
    }

    int size() {
        return newer.size() + older.size();
    }
}
