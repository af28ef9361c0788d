package io.github.spillgate.redis;

import java.util.Arrays;

/**
 * Unsigned numbers of so many bytes each, little-endian, one after another, as {@code struct.pack} and
 * {@code struct.unpack} have them in a script. One string of them costs Redis and the client less than a string for
 * each number.
 */
final class Packed {

    private Packed() {}

    /** Returns the number of so many bytes that starts there. */
    static long take(byte[] bytes, int from, int size) {
        long number = 0;
        for (int i = from + size - 1; i >= from; i--) {
            number = number << 8 | (bytes[i] & 0xff);
        }
        return number;
    }

    /** Puts numbers together. */
    static final class Writer {

        private byte[] bytes;
        private int length;

        Writer(int likelyLength) {
            bytes = new byte[likelyLength];
        }

        Writer put(long number, int size) {
            makeRoom(size);
            long rest = number;
            for (int i = 0; i < size; i++) {
                bytes[length++] = (byte) rest;
                rest >>>= 8;
            }
            return this;
        }

        Writer put(Writer other) {
            makeRoom(other.length);
            System.arraycopy(other.bytes, 0, bytes, length, other.length);
            length += other.length;
            return this;
        }

        private void makeRoom(int size) {
            if (length + size > bytes.length) {
                bytes = Arrays.copyOf(bytes, 2 * (length + size));
            }
        }

        int length() {
            return length;
        }

        byte[] toBytes() {
            return length == bytes.length ? bytes : Arrays.copyOf(bytes, length);
        }
    }
}
