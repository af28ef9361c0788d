package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.count.RestoredMark.Restored;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The count of a log: a ring of entries, the oldest first, one for each slot that has hits.
 *
 * <p>An entry is two adjacent longs: its slot, and the number of permits taken in it, at least one. The first {@code
 * expired} entries no longer count at the present time. They are removed by the next change, or when there are more
 * than {@value #MOST_EXPIRED}.
 */
final class LogCount extends RateCount {
    // Design notes.
    //
    // With many keys, a decision mostly waits for memory. Both ends of the ring are found with the mask, which is in
    // the count itself, so the processor can fetch them at the same time; with the array's length it would wait twice.
    // Copies of the oldest and the newest slot in the count made decisions slower: a take needs both ends anyway.

    private static final int SMALLEST = 4;
    private static final int MOST_EXPIRED = 64;
    private static final int MOST_GRANTS = 64;
    private static final long[] NONE = {};

    private static final int HEAD = 44;
    private static final int ENTRY = 9;
    private static final int MOST_SPARE = 256;

    /** The sum of the entries of a charged log fits into the four bytes of one. */
    private static final long MOST_PERMITS = (1L << 32) - 1;

    private long[] ring = NONE;
    private int mask;
    private int head;
    private int size;

    /** The permits of all entries, also of those that have expired. */
    private long total;

    /** The slot from which entries of the value count, when the value expires, and the last slot of an empty log. */
    private long base;

    private long expires;
    private long emptiedSlot;

    // Of the limit; read again only if a claim is under another one.

    private Limit limit;
    private long window;
    private long resolution;
    private long leaseTime;

    // As of the last "advance".

    private long now;
    private long slotOfNow;
    private int expired;

    /** The permits of the entries that have not expired. */
    private long used;

    LogCount() {
        see(NO_LIMIT);
    }

    @Override
    public void advance(Claim claim, long now) {
        if (!claim.limit().equals(limit)) {
            see(claim.limit());
        }
        this.now = now;
        slotOfNow = slotAt(now);
        expired = 0;
        used = total;
        if (size == 0) {
            return;
        }
        long newest = newestSlot();
        if (newest > slotOfNow && newest > leaseSlot()) {
            pull(leaseSlot());
        } else if (goneAt(newest) <= now) {
            expired = size;
            used = 0;
            return;
        }
        while (goneAt(slot(expired)) <= now) {
            used -= permits(expired);
            expired++;
        }
        if (expired > MOST_EXPIRED) {
            dropExpired();
            changed();
        }
    }

    private void see(Limit limit) {
        this.limit = limit;
        window = limit.window().toMillis();
        resolution = limit.resolution().toMillis();
        leaseTime = limit.leaseTime().toMillis();
    }

    private long slotAt(long time) {
        return resolution == 1 ? time : time / resolution; // a division takes long
    }

    /** Returns the slot of permits that are leased now. */
    private long leaseSlot() {
        return slotAt(now + leaseTime);
    }

    /** Merges all entries that are later than a slot into one of that slot. */
    private void pull(long slot) {
        long pulled = 0;
        while (size > 0 && slot(size - 1) >= slot) {
            pulled += permits(size - 1);
            size--;
        }
        append(slot, pulled);
        changed();
    }

    @Override
    public boolean fits(long cost) {
        return used + cost <= limit.permits();
    }

    @Override
    public void take(long cost) {
        add(slotOfNow, cost);
    }

    @Override
    public long lease(long most, int parts) {
        long leased = Math.min(most, Math.max(0, limit.permits() - used) / parts);
        if (leased > 0) {
            add(leaseSlot(), leased);
        }
        return leased;
    }

    /** Adds permits in a slot, or in the newest one if that is later because permits are leased. */
    private void add(long slot, long permits) {
        dropExpired();
        if (size > 0 && slot(size - 1) >= slot) {
            addToLast(permits);
        } else if (size >= Limit.MOST_LOG_ENTRIES) {
            // Only a debt can have more entries. Then the newest hits are kept longer, as in log.lua.
            ring[2 * index(size - 1)] = slot;
            addToLast(permits);
        } else {
            base = size == 1 ? slot(0) : base;
            append(slot, permits);
        }
        used += permits;
        total = used;
        changed();
    }

    @Override
    public void recordDenied(long cost) {
        long kept = Math.max(used, limit.permits());
        take(cost);
        trim(used - kept);
    }

    @Override
    public void refund(long takenAt, long permits) {
        long slot = takenAt / resolution;
        for (int i = size - 1; i >= expired && slot(i) >= slot; i--) {
            if (slot(i) == slot) {
                long given = Math.min(permits, permits(i));
                used -= given;
                setPermits(i, permits(i) - given);
                if (permits(i) == 0) {
                    remove(i);
                }
                dropExpired();
                changed();
                return;
            }
        }
    }

    @Override
    public void refundOldest(long permits) {
        if (used > 0) {
            dropExpired();
            trim(permits);
            changed();
        }
    }

    private void trim(long permits) {
        long rest = permits;
        while (rest > 0 && size > 0) {
            long given = Math.min(rest, permits(0));
            rest -= given;
            used -= given;
            setPermits(0, permits(0) - given);
            if (permits(0) == 0) {
                emptiedSlot = slot(0);
                head = index(1);
                size--;
            }
        }
        total = used;
    }

    @Override
    public long charge(List<Grants> ages) {
        LogCount slots = slotsOf(ages);
        if (slots.size == 0) {
            return 0;
        }
        dropExpired();
        merge(slots);
        return goneAt(slots.newestSlot()) - now;
    }

    /** Returns the grants that still count, one entry for each slot. Permits count from the end of their range. */
    private LogCount slotsOf(List<Grants> ages) {
        LogCount slots = new LogCount();
        for (Grants some : ages) {
            long slot = (now - some.toMillis()) / resolution;
            if (some.permits() > 0 && goneAt(slot) > now) {
                if (slots.newestSlot() < slot) {
                    slots.append(slot, 0);
                }
                slots.addToLast(some.permits());
            }
        }
        return slots;
    }

    /** Merges entries into this log, which has no expired ones. */
    private void merge(LogCount slots) {
        long added = fit(slots);
        // No grant that counts is older than a window.
        base = size <= 1 || slots.slot(0) < base ? Math.max(0, (now - window) / resolution) : base;
        become(mergedWith(slots));
        used += added;
        total = used;
        changed();
    }

    /** Drops the oldest permits above what a log can hold, of this log first; returns how many new ones are kept. */
    private long fit(LogCount slots) {
        long room = MOST_PERMITS;
        for (int i = slots.size - 1; i >= 0; i--) {
            slots.setPermits(i, Math.min(slots.permits(i), room));
            room -= slots.permits(i);
        }
        trim(used - room);
        return MOST_PERMITS - room;
    }

    /**
     * Returns a log with both entries. If this one has as many as a log may have, permits are added to the next later
     * entry; if there is none, the newest one moves to their slot.
     */
    private LogCount mergedWith(LogCount slots) {
        LogCount merged = new LogCount();
        int free = Limit.MOST_LOG_ENTRIES - size;
        int next = 0;
        for (int i = 0; i < slots.size; i++) {
            long slot = slots.slot(i);
            if (slots.permits(i) == 0) {
                continue;
            }
            while (merged.newestSlot() < slot && next < size && (free == 0 || slot(next) <= slot)) {
                merged.append(slot(next), permits(next));
                next++;
            }
            if (merged.newestSlot() < slot && free > 0) {
                merged.append(slot, 0);
                free--;
            } else if (merged.newestSlot() < slot) {
                merged.ring[2 * merged.index(merged.size - 1)] = slot;
            }
            merged.addToLast(slots.permits(i));
        }
        for (; next < size; next++) {
            merged.append(slot(next), permits(next));
        }
        return merged;
    }

    /**
     * {@inheritDoc} The n-th youngest restored permit is as young as the n-th youngest that any instance knew. The
     * numbers are that of the restored permits, the slot of the latest of them, and how many were restored into that
     * slot: it may be that in which others were granted since.
     */
    @Override
    @Nullable
    Restored restore(List<Grants> ages, Restored earlier) {
        LogCount known = slotsOf(ages);
        LogCount others = new LogCount();
        LogCount had = new LogCount();
        split(earlier, others, had);
        LogCount all = had.raisedTo(known);
        if (all.isSameAs(had)) {
            return null;
        }
        long last = Math.max(earlier.second(), known.newestSlot());
        Restored restored = earlier.with(all.sum(), last, all.newestSlot() == last ? all.permits(all.size - 1) : 0);
        become(others);
        expired = 0;
        used = others.sum();
        merge(all);
        return restored;
    }

    /** Splits the entries into permits that were restored before, the youngest that may have been, and all others. */
    private void split(Restored earlier, LogCount others, LogCount restored) {
        long found = 0;
        for (int i = expired; i < size; i++) {
            found += restoredIn(i, earlier);
        }
        long tooMany = Math.max(0, found - earlier.first());
        for (int i = expired; i < size; i++) {
            long some = restoredIn(i, earlier);
            long less = Math.min(tooMany, some);
            tooMany -= less;
            restored.appendAny(slot(i), some - less);
            others.appendAny(slot(i), permits(i) - some + less);
        }
    }

    /** Returns how many permits of an entry may have been restored. */
    private long restoredIn(int i, Restored earlier) {
        if (slot(i) == earlier.second()) {
            return Math.min(permits(i), earlier.third());
        }
        return slot(i) < earlier.second() ? permits(i) : 0;
    }

    /** Returns the fewest permits that are, in each slot and later ones, at least as many as in either log. */
    private LogCount raisedTo(LogCount other) {
        LogCount raised = new LogCount();
        long left = sum();
        long otherLeft = other.sum();
        int i = 0;
        int j = 0;
        while (i < size || j < other.size) {
            long before = Math.max(left, otherLeft);
            long slot = Math.min(i < size ? slot(i) : Long.MAX_VALUE, j < other.size ? other.slot(j) : Long.MAX_VALUE);
            if (i < size && slot(i) == slot) {
                left -= permits(i++);
            }
            if (j < other.size && other.slot(j) == slot) {
                otherLeft -= other.permits(j++);
            }
            raised.appendAny(slot, before - Math.max(left, otherLeft));
        }
        return raised;
    }

    private boolean isSameAs(LogCount other) {
        return size == other.size
                && IntStream.range(0, size).allMatch(i -> slot(i) == other.slot(i) && permits(i) == other.permits(i));
    }

    private long sum() {
        return IntStream.range(0, size).mapToLong(this::permits).sum();
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
    public long wholeAt() {
        return used == 0 ? now : goneAt(slot(size - 1));
    }

    @Override
    public long fitsAt(long cost) {
        long missing = used + cost - limit.permits();
        long fitsAt = now;
        for (int i = expired; missing > 0; i++) {
            missing -= permits(i);
            fitsAt = goneAt(slot(i));
        }
        return fitsAt;
    }

    /** Merges neighbours if there are many entries: all of them then count from the last one. */
    @Override
    public List<Grants> grants() {
        int together = (size - expired + MOST_GRANTS - 1) / MOST_GRANTS;
        List<Grants> all = new ArrayList<>();
        for (int i = expired; i < size; i += together) {
            int last = Math.min(i + together, size) - 1;
            long sum = 0;
            for (int j = i; j <= last; j++) {
                sum += permits(j);
            }
            all.add(new Grants(slot(i) * resolution, (slot(last) + 1) * resolution - 1, sum));
        }
        return all;
    }

    @Override
    int emptyLength() {
        return HEAD;
    }

    @Override
    boolean readValue(Limit limit, byte[] value) {
        if (value.length < HEAD) {
            return value.length == 0;
        }
        CountValue in = new CountValue(value);
        boolean isLog = in.nextKind() == CountValue.LOG;
        readLife(in);
        total = in.next(6);
        emptiedSlot = in.next(6);
        long count = in.next(4);
        int first = (int) in.next(2);
        int last = (int) in.next(2);
        in.skip(5);
        base = in.next(6);
        int room = (int) in.next(2);
        expires = in.next(6);
        see(limit);
        long gone = goneAt(emptiedSlot);
        boolean isWhole = first <= last && last <= room && value.length == HEAD + room * ENTRY;
        boolean isEmpty = total == 0;
        if (!isLog || !isWhole || count > total || (!isEmpty && (expires < gone || expires > gone + 4 * window))) {
            return false;
        }
        if (!isEmpty) {
            in.skip(first * ENTRY);
            for (int i = first; i < last; i++) {
                append(base + in.next(5), in.next(4));
            }
            append(emptiedSlot, count);
        }
        return true;
    }

    /** {@inheritDoc} It has the bytes that writeLog in log.lua writes if it rewrites the log. */
    @Override
    public byte[] write(long micros) {
        dropExpired();
        int older = Math.max(0, size - 1);
        int room = older == 0 ? 0 : older + Math.min(3 + older / 2, MOST_SPARE);
        long newest = size == 0 ? emptiedSlot : slot(older);
        long gone = goneAt(newest);
        expires = Math.max(now + 1, Math.min(Math.max(expires, gone + window / 16), gone + 4 * window));
        CountValue out = new CountValue(HEAD + room * ENTRY, CountValue.LOG, lifeAt(micros))
                .add(used, 6)
                .add(newest, 6)
                .add(size == 0 ? 0 : permits(older), 4)
                .add(0, 2)
                .add(older, 2)
                .add(older == 0 ? 0 : slot(0) - base, 5)
                .add(base, 6)
                .add(room, 2)
                .add(expires, 6);
        for (int i = 0; i < older; i++) {
            out.add(slot(i) - base, 5).add(permits(i), 4);
        }
        return out.bytes();
    }

    @Override
    public long expiresAt() {
        return expires;
    }

    /** A permit counts until the end of its slot is one window ago. */
    private long goneAt(long slot) {
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

    /** Returns the slot of the newest entry; -1 if there is none. */
    private long newestSlot() {
        return size == 0 ? -1 : slot(size - 1);
    }

    private void addToLast(long more) {
        setPermits(size - 1, permits(size - 1) + more);
    }

    /** Replaces all entries. */
    private void become(LogCount other) {
        ring = other.ring;
        mask = other.mask;
        head = other.head;
        size = other.size;
    }

    private void appendAny(long slot, long permits) {
        if (permits > 0) {
            append(slot, permits);
        }
    }

    private void append(long slot, long permits) {
        if (size == ring.length / 2) {
            resize(Math.max(SMALLEST, 2 * size));
        }
        int at = 2 * index(size);
        ring[at] = slot;
        ring[at + 1] = permits;
        size++;
    }

    private void remove(int i) {
        emptiedSlot = slot(i);
        for (int j = i; j < size - 1; j++) {
            ring[2 * index(j)] = slot(j + 1);
            setPermits(j, permits(j + 1));
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

    private long permits(int i) {
        return ring[2 * index(i) + 1];
    }

    private void setPermits(int i, long permits) {
        ring[2 * index(i) + 1] = permits;
    }
}
