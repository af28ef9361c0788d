package io.github.spillgate.redis;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;

/** The keys of a store's counts and of their marks in Redis. */
final class CountKeys {

    /**
     * The version of the storage format. It is part of each key, so that two versions that run side by side never
     * misread each other's values.
     */
    private static final String FORMAT = "3";

    /** The separator between the key of a count and the id of a mark, or nothing. Neither contains it. */
    private static final String MARK = "!";

    private final String prefix;
    private final byte[] prefixBytes;

    CountKeys(String namespace) {
        prefix = namespace + ":" + FORMAT + ":";
        prefixBytes = prefix.getBytes(StandardCharsets.US_ASCII);
    }

    byte[] count(Claim claim) {
        return key(claim, "");
    }

    /** Returns a key in the namespace that no count has. */
    byte[] unused() {
        return prefixBytes.clone();
    }

    /** Returns the key of the registered instances of a limiter. No count has it: those have more colons. */
    byte[] instances(String limiter) {
        return (prefix + "instances:{" + limiter + "}").getBytes(StandardCharsets.US_ASCII);
    }

    /** Returns a key in the namespace that no count has, in the hash slot of this tag. */
    byte[] unused(String tag) {
        return (prefix + "{" + tag + "}").getBytes(StandardCharsets.US_ASCII);
    }

    byte[][] counts(List<Claim> claims) {
        byte[][] keys = new byte[claims.size()][];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = count(claims.get(i));
        }
        return keys;
    }

    /** Returns the key that holds the time of the last reset of a count. */
    byte[] resetMark(Claim claim) {
        return key(claim, MARK);
    }

    /** Returns the keys of all counts, and then the keys of their refund marks. */
    byte[][] countsAndRefundMarks(List<Claim> claims) {
        return countsAndMarks(claims, this::refundMark);
    }

    /** Returns the keys of a count, of its reset mark and of its refund mark. */
    byte[][] countAndMarks(Claim claim) {
        return new byte[][] {count(claim), resetMark(claim), refundMark(claim)};
    }

    private byte[] refundMark(Claim claim) {
        return key(claim, MARK + MARK);
    }

    /** Returns the keys of all counts, and then the keys of their reset marks. */
    byte[][] countsAndResetMarks(List<Claim> claims) {
        return countsAndMarks(claims, this::resetMark);
    }

    private byte[][] countsAndMarks(List<Claim> claims, Function<Claim, byte[]> mark) {
        int size = claims.size();
        byte[][] keys = new byte[2 * size][];
        for (int i = 0; i < size; i++) {
            keys[i] = count(claims.get(i));
            keys[size + i] = mark.apply(claims.get(i));
        }
        return keys;
    }

    /** Returns two keys for each reconciliation: that of its count, and that of the mark that it has been charged. */
    byte[][] countsAndReconciliationMarks(List<Reconciliation> reconciliations) {
        return reconciliations.stream()
                .flatMap(one -> Stream.of(count(one.claim()), key(one.claim(), MARK + one.id())))
                .toArray(byte[][]::new);
    }

    /** Returns three keys for each settlement: of its count, of the reset mark of that, and of its own mark. */
    byte[][] countsAndSettlementMarks(List<Settlement> settlements) {
        return settlements.stream()
                .flatMap(
                        one -> Stream.of(count(one.claim()), resetMark(one.claim()), key(one.claim(), MARK + one.id())))
                .toArray(byte[][]::new);
    }

    @SuppressWarnings("deprecation") // copies the low byte of each character, which is all that ASCII has, at once
    private byte[] key(Claim claim, String suffix) {
        String identity = claim.identity();
        int length = prefixBytes.length + identity.length();
        byte[] key = new byte[length + suffix.length()];
        System.arraycopy(prefixBytes, 0, key, 0, prefixBytes.length);
        identity.getBytes(0, identity.length(), key, prefixBytes.length);
        suffix.getBytes(0, suffix.length(), key, length);
        return key;
    }

    /** Returns a pattern that matches all keys, for logs. */
    @Override
    public String toString() {
        return prefix + "*";
    }
}
