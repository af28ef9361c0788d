package io.github.spillgate.local;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Hits;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The count of a log: a ring of entries, the oldest first, one for each slot that has hits.
 *
 * <p>An entry is two adjacent longs: its slot, and the number of permits taken in it, at least one. The first {@code
 * expired} entries no longer count at the present time. They are removed by the next change, or when there are more
 * than {@value #MOST_EXPIRED}.
 */
final class LogCount extends Count {
    // Design notes.
    //
    // With many keys, a decision mostly waits for memory. Both ends of the ring are found with the mask, which is in
    // the count itself, so the processor can fetch them at the same time; with the array's length it would wait twice.
    // Copies of the oldest and the newest slot in the count made decisions slower: a take needs both ends anyway.

    private static final int SMALLEST = 4;
    private static final int MOST_EXPIRED = 64;
    private static final int MOST_HITS = 64;
    private static final long[] NONE = {};

    private long[] ring = NONE;
    private int mask;
    private int head;
    private int size;
    private long total;

    private long now;
    private long slotOfNow;
    private long window;
    private long resolution;
    private int expired;
    private long used;

    @Override
    public void advance(Claim claim, double share, long now) {
        Limit limit = claim.limit();
        this.now = now;
        window = limit.window().toMillis();
        resolution = limit.resolution().toMillis();
        slotOfNow = resolution == 1 ? now : now / resolution; // a division takes long
        pull(slotOfNow);
        if (size > 0 && expiresAt(slot(size - 1)) <= now) {
            expired = size;
            used = 0;
            return;
        }
        expired = 0;
        used = total;
        while (expired < size && expiresAt(slot(expired)) <= now) {
            used -= hits(expired);
            expired++;
        }
        if (expired > MOST_EXPIRED) {
            dropExpired();
        }
    }

    /** Merges all entries that are later than the present slot into one of that slot. */
    private void pull(long slot) {
        if (size == 0 || slot(size - 1) <= slot) {
            return;
        }
        long pulled = 0;
        while (size > 0 && slot(size - 1) >= slot) {
            pulled += hits(size - 1);
            size--;
        }
        append(slot, pulled);
    }

    @Override
    public boolean fits(Limit limit, long cost) {
        return used + cost <= limit.permits();
    }

    @Override
    public void take(long cost) {
        dropExpired();
        if (size > 0 && slot(size - 1) == slotOfNow) {
            setHits(size - 1, hits(size - 1) + cost);
        } else {
            append(slotOfNow, cost);
        }
        used += cost;
        total = used;
    }

    @Override
    public void recordDenied(Limit limit, long cost) {
        long most = Math.max(used, limit.permits());
        take(cost);
        trim(used - most);
    }

    @Override
    public void refund(Limit limit, long takenAt, long permits) {
        long slot = takenAt / resolution;
        for (int i = size - 1; i >= expired && slot(i) >= slot; i--) {
            if (slot(i) == slot) {
                long given = Math.min(permits, hits(i));
                used -= given;
                setHits(i, hits(i) - given);
                if (hits(i) == 0) {
                    remove(i);
                }
                dropExpired();
                return;
            }
        }
    }

    @Override
    public void refundOldest(long permits) {
        if (used > 0) {
            dropExpired();
            trim(permits);
        }
    }

    private void trim(long permits) {
        long rest = permits;
        while (rest > 0 && size > 0) {
            long given = Math.min(rest, hits(0));
            rest -= given;
            used -= given;
            setHits(0, hits(0) - given);
            if (hits(0) == 0) {
                head = index(1);
                size--;
            }
        }
        total = used;
    }

    @Override
    public void clear() {
        ring = NONE;
        mask = 0;
        head = 0;
        size = 0;
        total = 0;
        expired = 0;
        used = 0;
    }

    @Override
    public long used() {
        return used;
    }

    @Override
    public long recorded() {
        return used;
    }

    @Override
    public long wholeAt() {
        return used == 0 ? now : expiresAt(slot(size - 1));
    }

    @Override
    public long fitsAt(Limit limit, long cost) {
        long missing = used + cost - limit.permits();
        long fitsAt = now;
        for (int i = expired; missing > 0; i++) {
            missing -= hits(i);
            fitsAt = expiresAt(slot(i));
        }
        return fitsAt;
    }

    /** Merges neighbours if there are many entries: all of them then count from the last one. */
    @Override
    public List<Hits> hits() {
        int together = (size - expired + MOST_HITS - 1) / MOST_HITS;
        List<Hits> all = new ArrayList<>();
        for (int i = expired; i < size; i += together) {
            int last = Math.min(i + together, size) - 1;
            long permits = 0;
            for (int j = i; j <= last; j++) {
                permits += hits(j);
            }
            all.add(new Hits(slot(i) * resolution, (slot(last) + 1) * resolution - 1, permits));
        }
        return all;
    }

    /** A hit counts until the end of its slot is one window ago. */
    private long expiresAt(long slot) {
        return (slot + 1) * resolution + window;
    }

    private void dropExpired() {
        head = index(expired);
        size -= expired;
        expired = 0;
        total = used;
        int capacity = mask + 1;
        if (capacity > SMALLEST && size <= capacity / 4) {
            resize(Math.max(SMALLEST, capacity / 2));
        }
    }

    private void append(long slot, long hits) {
        if (size == ring.length / 2) {
            resize(Math.max(SMALLEST, 2 * size));
        }
        int at = 2 * index(size);
        ring[at] = slot;
        ring[at + 1] = hits;
        size++;
    }

    private void remove(int i) {
        for (int j = i; j < size - 1; j++) {
            ring[2 * index(j)] = slot(j + 1);
            setHits(j, hits(j + 1));
        }
        size--;
    }

    private void resize(int capacity) {
        int untilEnd = Math.min(size, mask + 1 - head);
        long[] resized = Arrays.copyOfRange(ring, 2 * head, 2 * head + 2 * capacity);
        System.arraycopy(ring, 0, resized, 2 * untilEnd, 2 * (size - untilEnd));
        ring = resized;
        mask = capacity - 1;
        head = 0;
    }

    private int index(int i) {
        return (head + i) & mask;
    }

    private long slot(int i) {
        return ring[2 * index(i)];
    }

    private long hits(int i) {
        return ring[2 * index(i) + 1];
    }

    private void setHits(int i, long hits) {
        ring[2 * index(i) + 1] = hits;
    }
}
