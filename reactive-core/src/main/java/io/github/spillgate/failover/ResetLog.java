package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;

/**
 * When counts were reset last: for as long as somebody may be answered who asked before that. Of so many that not all
 * can be remembered, the oldest half is forgotten; then whoever asked before the end of those is told that there was a
 * reset.
 */
final class ResetLog {

    private static final int MOST = 50_000;

    /** An answer is heard for a minute after the deadline, which is a minute at most. */
    private static final long LONGEST = TimeUnit.MINUTES.toNanos(2);

    private volatile ConcurrentMap<Object, Long> newer = new ConcurrentHashMap<>();
    private volatile ConcurrentMap<Object, Long> older = new ConcurrentHashMap<>();
    private long newerSince = Deadlines.now();
    private volatile long forgottenUntil = newerSince;

    /** They are being reset, or have just been. */
    synchronized void note(List<Claim> claims) {
        long now = Deadlines.now();
        if (now - newerSince > LONGEST || newer.size() >= MOST) {
            forgottenUntil = newerSince;
            older = newer;
            newer = new ConcurrentHashMap<>();
            newerSince = now;
        }
        for (Claim claim : claims) {
            newer.put(claim.handle(), now);
        }
    }

    /** Whether one of them may have been reset at that time or later. */
    boolean isAnySince(List<Claim> claims, long nanos) {
        for (Claim claim : claims) {
            if (isSince(newer, claim, nanos) || isSince(older, claim, nanos)) {
                return true;
            }
        }
        // Looked at last: what is forgotten meanwhile is known to be forgotten by then.
        return nanos - forgottenUntil < 0;
    }

    private static boolean isSince(ConcurrentMap<Object, Long> some, Claim claim, long nanos) {
        Long reset = some.get(claim.handle());
        return reset != null && reset - nanos >= 0;
    }

    int size() {
        return newer.size() + older.size();
    }
}
