package io.github.spillgate.local;

import io.github.spillgate.count.Count;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The counts of clients that are being denied. A flood of new keys cannot evict them: a cache that judges by frequency
 * and recency may evict a key that is asked for once a second.
 *
 * <p>A count keeps its place while some of its permits are in use. If all places are taken, a new one gets the place of
 * one of the two oldest, if that is fully replenished or has not been denied for {@value #LONGEST_PAUSE} milliseconds;
 * otherwise it stays in the cache. So clients that came first and still retry keep their places.
 *
 * @param <C> the type of the counts
 */
final class DeniedCounts<C extends Count> {

    /** The time in milliseconds after which a client counts as one that no longer retries. */
    private static final long LONGEST_PAUSE = 10_000;

    /** How many of the oldest counts a denial examines for a place, which bounds its work. */
    private static final int EXAMINED = 2;

    private final ConcurrentMap<Object, Kept<C>> counts = new ConcurrentHashMap<>();
    private final Queue<Kept<C>> byAge = new ConcurrentLinkedQueue<>();
    private final AtomicInteger size = new AtomicInteger();
    private final int most;

    /** Returns a count to the cache. */
    private final BiConsumer<Object, C> toCache;

    DeniedCounts(int most, BiConsumer<Object, C> toCache) {
        this.most = most;
        this.toCache = toCache;
    }

    @Nullable
    C get(Object handle) {
        if (size.get() == 0) {
            // An entry of the map is counted before it is added, until after it is removed.
            return null;
        }
        Kept<C> kept = counts.get(handle);
        return kept == null ? null : kept.count;
    }

    /** Keeps a count that was denied now, if there is a place; some of its permits are in use until that time. */
    void keep(Object handle, C count, long until, long now) {
        Kept<C> there = counts.get(handle);
        if (there != null) {
            there.until = until;
            there.deniedAt = now;
            return;
        }
        if (!takePlace(now)) {
            return;
        }
        Kept<C> kept = new Kept<>(handle, count, until, now);
        // First to be found here, then protected: a lookup that misses it in the cache looks here again.
        if (counts.putIfAbsent(handle, kept) != null) {
            size.decrementAndGet();
        } else if (count.protect()) {
            byAge.add(kept);
        } else {
            counts.remove(handle, kept);
            size.decrementAndGet();
        }
    }

    private boolean takePlace(long now) {
        for (int examined = 0; size.get() >= most; examined++) {
            Kept<C> oldest = examined < EXAMINED ? byAge.poll() : null;
            if (oldest == null) {
                return false;
            }
            if (oldest.mustStay(now)) {
                byAge.add(oldest);
            } else {
                release(oldest);
            }
        }
        // Threads that arrive here at the same time may exceed the bound by their number.
        size.incrementAndGet();
        return true;
    }

    private void release(Kept<C> kept) {
        // First, so that an eviction from the cache marks it.
        kept.count.unprotect();
        toCache.accept(kept.handle, kept.count);
        counts.remove(kept.handle, kept);
        size.decrementAndGet();
    }

    int size() {
        return size.get();
    }

    private static final class Kept<C> {

        private final Object handle;
        private final C count;
        private volatile long until;
        private volatile long deniedAt;

        Kept(Object handle, C count, long until, long deniedAt) {
            this.handle = handle;
            this.count = count;
            this.until = until;
            this.deniedAt = deniedAt;
        }

        boolean mustStay(long now) {
            return now < until && Math.abs(now - deniedAt) < LONGEST_PAUSE;
        }
    }
}
