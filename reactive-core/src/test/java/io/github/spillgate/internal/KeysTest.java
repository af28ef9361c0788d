package io.github.spillgate.internal;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import net.jqwik.api.Tuple.Tuple2;

class KeysTest {

    @Property
    void encodedKeysAreHarmlessAndShort(@ForAll("keys") String key) {
        assertThat(Keys.encode(key)).matches("#?[A-Za-z0-9._~:@/+=,%_-]{1,128}");
    }

    @Property
    void differentKeysStayDifferent(@ForAll("pairs") Tuple2<String, String> pair) {
        boolean equal = pair.get1().equals(pair.get2());
        assertThat(Keys.encode(pair.get1()).equals(Keys.encode(pair.get2()))).isEqualTo(equal);
    }

    /** Keys that are long enough to be digested in several pieces. */
    @Example
    void veryLongKeysThatDifferAnywhereStayDifferent() {
        String same = "x".repeat(20_000);
        assertThat(Keys.encode("a" + same)).isNotEqualTo(Keys.encode("b" + same));
        assertThat(Keys.encode(same + "a")).isNotEqualTo(Keys.encode(same + "b"));
        assertThat(Keys.encode(same)).isNotEqualTo(Keys.encode(same + "x"));
        assertThat(Keys.encode("\ud800" + same)).isNotEqualTo(Keys.encode("?" + same));
    }

    /** Stored names must not change between versions. */
    @Example
    void theDigestIsTheSha256OfTheUtf16Text() throws Exception {
        String key = "ä".repeat(5_000);
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(key.getBytes(StandardCharsets.UTF_16BE));
        assertThat(Keys.encode(key))
                .isEqualTo("#" + Base64.getUrlEncoder().withoutPadding().encodeToString(digest));
    }

    @Example
    void ordinaryKeysAreReadable() {
        assertThat(Keys.encode("user:42")).isEqualTo("user:42");
        assertThat(Keys.encode("2001:db8::1/64")).isEqualTo("2001:db8::1/64");
        assertThat(Keys.encode("me@example.org")).isEqualTo("me@example.org");
        assertThat(Keys.encode("{a} *?[b]")).isEqualTo("%7Ba%7D%20%2A%3F%5Bb%5D");
        assertThat(Keys.encode("é😀")).isEqualTo("%C3%A9%F0%9F%98%80");
        assertThat(Keys.encode("\0\n")).isEqualTo("%00%0A");
    }

    /** Stored names must not change between versions. */
    @Example
    void otherCharactersAreEscapedAsUtf8Bytes() {
        for (String key :
                List.of("\u007f", "\u0080", "\u07ff", "\u0800", "€", "\uffff", "\ud800\udc00", "\udbff\udfff")) {
            assertThat(Keys.encode(key)).isEqualTo(bytes(key.getBytes(StandardCharsets.UTF_8)));
        }
        // UTF-8 cannot represent an unpaired surrogate; these are the bytes that it would have.
        assertThat(Keys.encode("\ud800")).isEqualTo("%ED%A0%80");
        assertThat(Keys.encode("\udfff")).isEqualTo("%ED%BF%BF");
    }

    @Example
    void plainCharactersAreKept() {
        String plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~:@/+=,-";
        assertThat(Keys.encode(plain)).isEqualTo(plain);
        for (char c = 0; c < 0x80; c++) {
            String key = String.valueOf(c);
            assertThat(Keys.encode(key)).isEqualTo(plain.contains(key) ? key : bytes(new byte[] {(byte) c}));
        }
    }

    @Example
    void longKeysAreNamedByTheirDigest() {
        assertThat(Keys.encode("x".repeat(128))).isEqualTo("x".repeat(128));
        assertThat(Keys.encode("x".repeat(129))).startsWith("#").hasSize(44);
        assertThat(Keys.encode("ä".repeat(21) + "xx")).isEqualTo("%C3%A4".repeat(21) + "xx");
        assertThat(Keys.encode("ä".repeat(21) + "xxx")).startsWith("#").hasSize(44);
        assertThat(Keys.encode("ä".repeat(22))).startsWith("#").hasSize(44);
        assertThat(Keys.encode("x".repeat(1 << 20))).startsWith("#").hasSize(44);
    }

    private static String bytes(byte[] bytes) {
        return "%" + HexFormat.ofDelimiter("%").withUpperCase().formatHex(bytes);
    }

    @Provide
    Arbitrary<String> keys() {
        Arbitrary<String> ordinary = Arbitraries.strings().all().ofMinLength(1).ofMaxLength(60);
        Arbitrary<String> nasty = Arbitraries.strings()
                .withChars("aé{}*?[]%#:\0\n\r \ud83d\ude00")
                .ofMinLength(1)
                .ofMaxLength(140);
        return Arbitraries.oneOf(ordinary, nasty);
    }

    @Provide
    Arbitrary<Tuple2<String, String>> pairs() {
        Arbitrary<Tuple2<String, String>> any = keys().tuple2();
        Arbitrary<Tuple2<String, String>> encodedTwice = keys().map(key -> Tuple.of(key, Keys.encode(key)));
        Arbitrary<Tuple2<String, String>> oneCharacterMore = keys().map(key -> Tuple.of(key, key + "\udc00"));
        return Arbitraries.oneOf(any, encodedTwice, oneCharacterMore);
    }
}
