package io.github.spillgate.local;

import io.github.spillgate.Limit;
import io.github.spillgate.Settlement.Hits;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The count of a log: its hits in a ring, oldest first, those of one slot as one entry.
 *
 * <p>An entry is two longs that lie together: its slot and how many permits were taken in it, at least one. The first
 * {@code left} entries have left by the time that was looked at, but are dropped only by the next change, or if they
 * are more than {@value #MOST_LEFT}.
 */
final class LogCount extends Count {
    // Design notes.
    //
    // With many keys, a decision waits for memory more than for anything else. Both ends of the ring are found with
    // what lies in the count itself, the mask, so that the processor can fetch them at the same time; if the ring were
    // asked for its length first, each look would wait twice. Copies of the oldest and the newest slot in the count, so
    // as to look at the ring less often, made decisions slower: who takes needs both ends all the same, only later.

    private static final int SMALLEST = 4;
    private static final int MOST_LEFT = 64;
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
    private int left;
    private long used;

    @Override
    void look(Limit limit, long now) {
        this.now = now;
        window = limit.window().toMillis();
        resolution = limit.resolution().toMillis();
        slotOfNow = resolution == 1 ? now : now / resolution; // a division takes long
        pull(slotOfNow);
        if (size > 0 && leavesAt(slot(size - 1)) <= now) {
            left = size;
            used = 0;
            return;
        }
        left = 0;
        used = total;
        while (left < size && leavesAt(slot(left)) <= now) {
            used -= hits(left);
            left++;
        }
        if (left > MOST_LEFT) {
            dropLeft();
        }
    }

    /** Makes one entry of everything that is stamped later than the slot of now, if anything is. */
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
    boolean fits(Limit limit, long cost) {
        return used + cost <= limit.permits();
    }

    @Override
    void take(long cost) {
        dropLeft();
        if (size > 0 && slot(size - 1) == slotOfNow) {
            setHits(size - 1, hits(size - 1) + cost);
        } else {
            append(slotOfNow, cost);
        }
        used += cost;
        total = used;
    }

    @Override
    void recordDenied(Limit limit, long cost) {
        long most = Math.max(used, limit.permits());
        take(cost);
        trim(used - most);
    }

    @Override
    void refund(Limit limit, long takenAt, long permits) {
        long slot = takenAt / resolution;
        for (int i = size - 1; i >= left && slot(i) >= slot; i--) {
            if (slot(i) == slot) {
                long given = Math.min(permits, hits(i));
                used -= given;
                setHits(i, hits(i) - given);
                if (hits(i) == 0) {
                    remove(i);
                }
                dropLeft();
                return;
            }
        }
    }

    @Override
    void refundOldest(long permits) {
        if (used > 0) {
            dropLeft();
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
    void clear() {
        ring = NONE;
        mask = 0;
        head = 0;
        size = 0;
        total = 0;
        left = 0;
        used = 0;
    }

    @Override
    long used() {
        return used;
    }

    @Override
    long recorded() {
        return used;
    }

    @Override
    long wholeAt() {
        return used == 0 ? now : leavesAt(slot(size - 1));
    }

    @Override
    long fitsAt(Limit limit, long cost) {
        long missing = used + cost - limit.permits();
        long fitsAt = now;
        for (int i = left; missing > 0; i++) {
            missing -= hits(i);
            fitsAt = leavesAt(slot(i));
        }
        return fitsAt;
    }

    /**
     * What has much to tell tells it coarser: hits that lie together are told as if they had all come with the last of
     * them.
     */
    @Override
    List<Hits> hits() {
        int together = (size - left + MOST_HITS - 1) / MOST_HITS;
        List<Hits> all = new ArrayList<>();
        for (int i = left; i < size; i += together) {
            int last = Math.min(i + together, size) - 1;
            long permits = 0;
            for (int j = i; j <= last; j++) {
                permits += hits(j);
            }
            all.add(new Hits(slot(i) * resolution, (slot(last) + 1) * resolution - 1, permits));
        }
        return all;
    }

    /** A hit leaves when the end of its slot is one window old. */
    private long leavesAt(long slot) {
        return (slot + 1) * resolution + window;
    }

    private void dropLeft() {
        head = index(left);
        size -= left;
        left = 0;
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
