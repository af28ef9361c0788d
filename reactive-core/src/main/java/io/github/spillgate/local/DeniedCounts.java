package io.github.spillgate.local;

import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The counts of those who are being denied, apart from all others: no flood of fresh keys washes them out, for a cache
 * that goes by how often and how lately a key was seen may be wrong about one that asks once a second.
 *
 * <p>A count stays for as long as something of it counts. There is place for so many, and a newcomer finds one when one
 * of the two that have stayed longest has had its time, or has not been asked for {@value #PATIENCE} milliseconds. Else
 * it is left to the cache: those who came before and still ask are not driven out.
 */
final class DeniedCounts {

    private static final long PATIENCE = 10_000;
    private static final int LOOKED_AT = 2;

    private final ConcurrentMap<Object, Kept> counts = new ConcurrentHashMap<>();
    private final Queue<Kept> inTurn = new ConcurrentLinkedQueue<>();
    private final AtomicInteger size = new AtomicInteger();
    private final int most;
    private final BiConsumer<Object, Count> back;

    /** Lets counts go to {@code back}, which puts them where all others are. */
    DeniedCounts(int most, BiConsumer<Object, Count> back) {
        this.most = most;
        this.back = back;
    }

    @Nullable
    Count get(Object handle) {
        if (size.get() == 0) {
            // Who is in the map has been counted before, and is until he is out of it.
            return null;
        }
        Kept kept = counts.get(handle);
        return kept == null ? null : kept.count;
    }

    /** Keeps a count that has been denied now, if there is a place; something of it counts until then. */
    void keep(Object handle, Count count, long until, long now) {
        Kept there = counts.get(handle);
        if (there != null) {
            there.until = until;
            there.deniedAt = now;
            return;
        }
        if (!takePlace(now)) {
            return;
        }
        Kept kept = new Kept(handle, count, until, now);
        // First to be found here, then kept: whoever misses it in the cache looks here once more.
        if (counts.putIfAbsent(handle, kept) != null) {
            size.decrementAndGet();
        } else if (count.keepApart()) {
            inTurn.add(kept);
        } else {
            counts.remove(handle, kept);
            size.decrementAndGet();
        }
    }

    private boolean takePlace(long now) {
        for (int looked = 0; size.get() >= most; looked++) {
            Kept oldest = looked < LOOKED_AT ? inTurn.poll() : null;
            if (oldest == null) {
                return false;
            }
            if (oldest.isWanted(now)) {
                inTurn.add(oldest);
            } else {
                letGo(oldest);
            }
        }
        // As many as come at this instant may be too many; they are few, and the next ones find no place.
        size.incrementAndGet();
        return true;
    }

    private void letGo(Kept kept) {
        back.accept(kept.handle, kept.count);
        kept.count.letGo();
        counts.remove(kept.handle, kept);
        size.decrementAndGet();
    }

    /** How many are kept, for tests to look at. */
    int size() {
        return size.get();
    }

    private static final class Kept {

        private final Object handle;
        private final Count count;
        private volatile long until;
        private volatile long deniedAt;

        Kept(Object handle, Count count, long until, long deniedAt) {
            this.handle = handle;
            this.count = count;
            this.until = until;
            this.deniedAt = deniedAt;
        }

        boolean isWanted(long now) {
            return now < until && Math.abs(now - deniedAt) < PATIENCE;
        }
    }
}
