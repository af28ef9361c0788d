package io.github.spillgate.count;

import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.spi.StoreUsage;

/** The value that a store has of a count, read or written field by field. {@code counts.lua} has the format. */
final class CountValue {

    static final int LOG = 's' | 'g' << 8 | 'L' << 16;
    static final int COUNTER = 's' | 'g' << 8 | 'C' << 16;
    static final int BUCKET = 's' | 'g' << 8 | 'B' << 16;
    static final int BUCKET_SET_BACK = 's' | 'g' << 8 | 'b' << 16;
    static final int QUOTA = 's' | 'g' << 8 | 'Q' << 16;
    static final int BAN = 's' | 'g' << 8 | 'N' << 16;
    static final int HOLDS = 's' | 'g' << 8 | 'H' << 16;

    private static final int KIND = 3;
    private static final int LIFE = 2;

    /** The length of the expiry at the end of the value, or of the head of a log. */
    static final int EXPIRY = 6;

    static final byte[] NONE = {};

    private final byte[] bytes;
    private int at;

    /** A value to read. */
    CountValue(byte[] bytes) {
        this.bytes = bytes;
    }

    /** A value to write. */
    CountValue(int length, int kind) {
        this(new byte[length]);
        add(kind, KIND);
    }

    /** A value to write, of a kind that has a life. */
    CountValue(int length, int kind, int life) {
        this(length, kind);
        add(life, LIFE);
    }

    int nextKind() {
        return (int) next(KIND);
    }

    int nextLife() {
        return (int) next(LIFE);
    }

    /** Reads the next number. */
    long next(int size) {
        at += size;
        return LittleEndian.get(bytes, at - size, size);
    }

    void skip(int size) {
        at += size;
    }

    boolean hasMore() {
        return at < bytes.length;
    }

    /** Writes the next number. */
    CountValue add(long number, int size) {
        at = LittleEndian.put(bytes, at, number, size);
        return this;
    }

    byte[] bytes() {
        return bytes;
    }

    /**
     * Returns what a reset leaves of a value, as in {@code reset.lua}; nothing if it is to be deleted.
     *
     * @param length the length of a value without permits; 0 to delete it
     * @param kept how many bytes at its end are kept
     */
    static byte[] emptied(byte[] value, int length, int kept) {
        int size = value.length < length ? 0 : length;
        byte[] emptied = new byte[size];
        if (size > 0) {
            System.arraycopy(value, 0, emptied, 0, KIND);
            int life = (int) LittleEndian.get(value, KIND, LIFE);
            int resets = (life + 1) % StoreUsage.RESETS;
            LittleEndian.put(emptied, KIND, life - life % StoreUsage.RESETS + resets, LIFE);
            System.arraycopy(value, size - kept, emptied, size - kept, kept);
        }
        return emptied;
    }
}
