package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;

/** A log as it lies in Redis, read without any script. */
public record StoredLog(
        long used, long newest, long count, long base, int first, int last, List<Long> slots, List<Long> counts) {

    private static final int HEAD = 44;
    private static final int ENTRY = 9;

    public static StoredLog parse(byte[] bytes) {
        int first = (int) number(bytes, 21, 2);
        int last = (int) number(bytes, 23, 2);
        long base = number(bytes, 30, 6);
        if (first < last) {
            assertThat(number(bytes, 25, 5)).isEqualTo(number(bytes, HEAD + first * ENTRY, 5));
        }
        assertThat(bytes).hasSize(HEAD + (int) number(bytes, 36, 2) * ENTRY);
        List<Long> slots = new ArrayList<>();
        List<Long> counts = new ArrayList<>();
        for (int n = first; n < last; n++) {
            slots.add(base + number(bytes, HEAD + n * ENTRY, 5));
            counts.add(number(bytes, HEAD + n * ENTRY + 5, 4));
        }
        return new StoredLog(
                number(bytes, 5, 6), number(bytes, 11, 6), number(bytes, 17, 4), base, first, last, slots, counts);
    }

    /** Checks that the parts of each log agree: what is used is the sum of the entries, and these are in order. */
    public static void checkAll(Keyspace keyspace) {
        for (String key : keyspace.keys()) {
            byte[] bytes = keyspace.bytes(key);
            if (bytes.length >= HEAD && bytes[2] == 'L') {
                parse(bytes).check();
            }
        }
    }

    public void check() {
        assertThat(counts.stream().mapToLong(Long::longValue).sum() + count).isEqualTo(used);
        if (used == 0) {
            assertThat(slots).isEmpty();
            return;
        }
        assertThat(count).isPositive();
        assertThat(counts).allMatch(some -> some > 0);
        List<Long> all = new ArrayList<>(slots);
        all.add(newest);
        assertThat(all).isSorted().doesNotHaveDuplicates();
    }

    private static long number(byte[] bytes, int from, int length) {
        long number = 0;
        for (int i = length - 1; i >= 0; i--) {
            number = (number << 8) | (bytes[from + i] & 0xff);
        }
        return number;
    }
}
