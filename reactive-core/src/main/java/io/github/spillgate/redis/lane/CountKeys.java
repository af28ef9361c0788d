package io.github.spillgate.redis.lane;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Stream;

/** The keys of a store's counts and of their marks in Redis. */
public final class CountKeys {

    /**
     * The version of the storage format. It is part of each key, so that two versions that run side by side never
     * misread each other's values.
     */
    private static final String FORMAT = "3";

    /** The separator between the key of a count and the id of a mark, or nothing. Neither contains it. */
    private static final String MARK = "!";

    private final String prefix;
    private final byte[] prefixBytes;

    public CountKeys(String namespace) {
        prefix = namespace + ":" + FORMAT + ":";
        prefixBytes = prefix.getBytes(StandardCharsets.US_ASCII);
    }

    byte[] count(Claim claim) {
        return key(claim, "");
    }

    /** Returns a key in the namespace that no count has. */
    public byte[] unused() {
        return prefixBytes.clone();
    }

    /** Returns the keys of the registered processes, and of what is published. No count has so few colons. */
    public byte[][] fleet() {
        return new byte[][] {
            (prefix + "instances:{fleet}").getBytes(StandardCharsets.US_ASCII),
            (prefix + "published:{fleet}").getBytes(StandardCharsets.US_ASCII)
        };
    }

    /** Returns a key in the namespace that no count has, in the hash slot of this tag. */
    public byte[] unused(String tag) {
        return (prefix + "{" + tag + "}").getBytes(StandardCharsets.US_ASCII);
    }

    public byte[][] counts(List<Claim> claims) {
        byte[][] keys = new byte[claims.size()][];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = count(claims.get(i));
        }
        return keys;
    }

    /** Returns the key that holds the time of the last reset of a count. */
    public byte[] resetMark(Claim claim) {
        return key(claim, MARK);
    }

    /** Returns the keys of all counts, and then the keys of their reset marks. */
    public byte[][] countsAndResetMarks(List<Claim> claims) {
        int size = claims.size();
        byte[][] keys = new byte[2 * size][];
        for (int i = 0; i < size; i++) {
            keys[i] = count(claims.get(i));
            keys[size + i] = resetMark(claims.get(i));
        }
        return keys;
    }

    /**
     * Returns four keys for each reconciliation: of its count, of the mark of its source, and of the marks of the last
     * reset of the count, and of what was restored in it.
     */
    public byte[][] countsAndReconciliationMarks(List<Reconciliation> reconciliations) {
        return reconciliations.stream()
                .flatMap(one -> Stream.of(
                        count(one.claim()),
                        key(one.claim(), MARK + one.source()),
                        resetMark(one.claim()),
                        key(one.claim(), MARK + MARK)))
                .toArray(byte[][]::new);
    }

    /** Returns three keys for each settlement: of its count, of the reset mark of that, and of its own mark. */
    public byte[][] countsAndSettlementMarks(List<Settlement> settlements) {
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
