package io.github.spillgate.internal;

/** Unsigned numbers of up to eight bytes, the lowest byte first, as the scripts pack them. */
public final class LittleEndian {

    private LittleEndian() {}

    /**
     * Reads a number.
     *
     * @param bytes the bytes
     * @param from the index of its first byte
     * @param size the number of its bytes
     * @return the number
     */
    public static long get(byte[] bytes, int from, int size) {
        long number = 0;
        for (int i = from + size - 1; i >= from; i--) {
            number = number << 8 | (bytes[i] & 0xff);
        }
        return number;
    }

    /**
     * Writes the lowest bytes of a number.
     *
     * @param bytes the bytes to change
     * @param from the index of its first byte
     * @param number the number
     * @param size the number of its bytes
     * @return the index behind it
     */
    public static int put(byte[] bytes, int from, long number, int size) {
        long rest = number;
        for (int i = from; i < from + size; i++) {
            bytes[i] = (byte) rest;
            rest >>>= 8;
        }
        return from + size;
    }
}
