package io.github.spillgate.internal;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;

/**
 * The encoding of untrusted strings as parts of stored names.
 *
 * <p>Letters, digits and {@code . _ ~ : @ / + = , -} are unchanged. Every other character becomes its UTF-8 bytes as
 * {@code %XX}. So an encoded key contains no hash tag of Redis Cluster, no pattern of {@code SCAN}, no line end and no
 * separator of ours. The encoding is injective: an unpaired surrogate, which UTF-8 cannot represent, becomes the three
 * bytes that it would have, not a question mark.
 *
 * <p>If the result would be longer than {@value #LONGEST} characters, it is the SHA-256 digest of the key instead,
 * after a {@code #}, which no other encoded key contains. So the store needs no more memory for a long key.
 */
public final class Keys {

    public static final int LONGEST = 128;

    private static final boolean[] PLAIN = new boolean[128];
    private static final char[] HEX = "0123456789ABCDEF".toCharArray();

    static {
        for (char c = 0; c < PLAIN.length; c++) {
            PLAIN[c] = (c >= 'a' && c <= 'z')
                    || (c >= 'A' && c <= 'Z')
                    || (c >= '0' && c <= '9')
                    || "._~:@/+=,-".indexOf(c) >= 0;
        }
    }

    private Keys() {}

    public static String encode(String key) {
        int length = key.length();
        if (length > LONGEST) {
            return digest(key);
        }
        for (int i = 0; i < length; i++) {
            char c = key.charAt(i);
            if (c >= PLAIN.length || !PLAIN[c]) {
                return encodeFrom(i, key);
            }
        }
        return key;
    }

    /** Returns a key of at most {@value #LONGEST} characters as it is, and the encoded form of a longer one. */
    public static String bounded(String key, String encoded) {
        return key.length() > LONGEST ? encoded : key;
    }

    private static String encodeFrom(int first, String key) {
        StringBuilder encoded = new StringBuilder(LONGEST).append(key, 0, first);
        int i = first;
        while (i < key.length()) {
            int codePoint = key.codePointAt(i);
            i += Character.charCount(codePoint);
            if (codePoint < PLAIN.length && PLAIN[codePoint]) {
                encoded.append((char) codePoint);
            } else if (codePoint < 0x80) {
                appendByte(encoded, codePoint);
            } else if (codePoint < 0x800) {
                appendByte(encoded, 0xc0 | (codePoint >> 6));
                appendByte(encoded, 0x80 | (codePoint & 0x3f));
            } else if (codePoint < 0x10000) {
                appendByte(encoded, 0xe0 | (codePoint >> 12));
                appendByte(encoded, 0x80 | ((codePoint >> 6) & 0x3f));
                appendByte(encoded, 0x80 | (codePoint & 0x3f));
            } else {
                appendByte(encoded, 0xf0 | (codePoint >> 18));
                appendByte(encoded, 0x80 | ((codePoint >> 12) & 0x3f));
                appendByte(encoded, 0x80 | ((codePoint >> 6) & 0x3f));
                appendByte(encoded, 0x80 | (codePoint & 0x3f));
            }
            if (encoded.length() > LONGEST) {
                return digest(key);
            }
        }
        return encoded.toString();
    }

    private static void appendByte(StringBuilder encoded, int value) {
        encoded.append('%').append(HEX[value >> 4]).append(HEX[value & 0xf]);
    }

    private static String digest(String key) {
        // As UTF-16, which can represent every string, and in pieces, so that a huge key is not copied as a whole.
        MessageDigest sha256 = sha256();
        ByteBuffer piece = ByteBuffer.allocate(8_192);
        for (int i = 0; i < key.length(); i++) {
            piece.putChar(key.charAt(i));
            if (!piece.hasRemaining()) {
                sha256.update(piece.flip());
                piece.clear();
            }
        }
        sha256.update(piece.flip());
        byte[] name = Base64.getUrlEncoder().withoutPadding().encode(sha256.digest());
        return "#" + new String(name, StandardCharsets.US_ASCII);
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("this Java platform has no SHA-256, which every one must have", e);
        }
    }
}
