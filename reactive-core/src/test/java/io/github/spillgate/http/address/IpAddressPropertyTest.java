package io.github.spillgate.http.address;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HexFormat;
import java.util.stream.Collectors;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import net.jqwik.api.constraints.IntRange;
import org.jspecify.annotations.Nullable;

/** The JDK, which reads and writes addresses too, is the witness. */
class IpAddressPropertyTest {

    @Property
    void addressesOfTheJdkAreParsed(@ForAll("addresses") InetAddress address) throws UnknownHostException {
        IpAddress read = requireNonNull(IpAddress.parse(address.getHostAddress()));
        assertThat(InetAddress.getByName(read.toString())).isEqualTo(address);
        assertThat(IpAddress.parse(read.toString())).isEqualTo(read);
        assertThat(read.toString())
                .hasSizeLessThanOrEqualTo(address.getHostAddress().length());
    }

    @Property
    void addressesWithTheSamePrefixHaveTheSameFirstAddress(
            @ForAll("addresses") InetAddress one,
            @ForAll("addresses") InetAddress other,
            @ForAll @IntRange(max = 128) int prefix) {
        IpAddress a = requireNonNull(IpAddress.parse(one.getHostAddress()));
        IpAddress b = requireNonNull(IpAddress.parse(other.getHostAddress()));
        assertThat(a.shares(prefix, b)).isEqualTo(a.cut(prefix).equals(b.cut(prefix)));
        assertThat(a.shares(prefix, a.cut(prefix))).isTrue();
    }

    @Property
    void aCutAddressHasNoBitsAfterThePrefix(
            @ForAll("addresses") InetAddress address, @ForAll @IntRange(max = 128) int prefix)
            throws UnknownHostException {
        byte[] expected = address.getAddress();
        for (int bit = prefix; bit < 8 * expected.length; bit++) {
            expected[bit / 8] &= (byte) ~(0x80 >> bit % 8);
        }
        IpAddress cut =
                requireNonNull(IpAddress.parse(address.getHostAddress())).cut(prefix);
        if (cut.bits() == 8 * expected.length) {
            assertThat(cut)
                    .isEqualTo(
                            IpAddress.parse(InetAddress.getByAddress(expected).getHostAddress()));
        }
    }

    /** The model reads the hex digits of the whole address, where the code shifts bits. */
    @Property
    void theEmbeddedIpv4AddressIsTheOneThatTheDigitsShow(@ForAll("transitionAddresses") InetAddress address)
            throws UnknownHostException {
        IpAddress read = requireNonNull(IpAddress.parse(address.getHostAddress()));
        String digits = HexFormat.of().formatHex(address.getAddress());
        assertThat(read.embeddedV4()).isEqualTo(embedded(digits));
    }

    private static @Nullable IpAddress embedded(String digits) throws UnknownHostException {
        String v4;
        if (digits.length() == 8) {
            return null;
        } else if (digits.startsWith("2002")) {
            v4 = digits.substring(4, 12);
        } else if (digits.startsWith("20010000")) {
            v4 = new BigInteger("ffffffff", 16)
                    .subtract(new BigInteger(digits.substring(24), 16))
                    .add(BigInteger.ONE.shiftLeft(32))
                    .toString(16)
                    .substring(1);
        } else if (digits.startsWith("0064ff9b" + "0".repeat(16)) || digits.startsWith("0".repeat(24))) {
            v4 = digits.substring(24);
        } else {
            return null;
        }
        InetAddress host = InetAddress.getByAddress(HexFormat.of().parseHex(v4));
        return v4.startsWith("00") ? null : IpAddress.parse(host.getHostAddress());
    }

    @Property
    void noTextMakesTheParserThrow(@ForAll("texts") String text) {
        IpAddress address = IpAddress.parse(text);
        if (address != null) {
            assertThat(IpAddress.parse(address.toString())).isEqualTo(address);
        }
    }

    @Provide
    Arbitrary<InetAddress> addresses() {
        // Zeros in a row are what makes texts differ.
        Arbitrary<Byte> some =
                Arbitraries.frequencyOf(Tuple.of(3, Arbitraries.just((byte) 0)), Tuple.of(1, Arbitraries.bytes()));
        return Arbitraries.of(4, 16)
                .flatMap(length -> some.array(byte[].class).ofSize(length))
                .map(IpAddressPropertyTest::address);
    }

    /** A prefix of a transition form, or one that differs from it in a digit; then zeros and a few other bytes. */
    @Provide
    Arbitrary<InetAddress> transitionAddresses() {
        Arbitrary<String> prefixes = Arbitraries.of(
                "2002",
                "20010000",
                "0064ff9b0000000000000000",
                "000000000000000000000000",
                "0064ff9b0001",
                "2001db8",
                "");
        Arbitrary<Integer> digit = Arbitraries.frequencyOf(
                Tuple.of(9, Arbitraries.just(-1)),
                Tuple.of(1, Arbitraries.integers().between(0, 31)));
        Arbitrary<String> rest = Arbitraries.frequencyOf(
                        Tuple.of(1, Arbitraries.just('0')),
                        Tuple.of(1, Arbitraries.chars().with("0123456789abcdef")))
                .list()
                .ofSize(32)
                .map(list -> list.stream().map(String::valueOf).collect(Collectors.joining()));
        return Combinators.combine(prefixes, rest, digit).as((prefix, end, changed) -> {
            StringBuilder digits = new StringBuilder(prefix + end.substring(prefix.length()));
            if (changed >= 0) {
                digits.setCharAt(changed, digits.charAt(changed) == '1' ? '2' : '1');
            }
            return address(HexFormat.of().parseHex(digits));
        });
    }

    private static InetAddress address(byte[] bytes) {
        try {
            return InetAddress.getByAddress(bytes);
        } catch (UnknownHostException e) {
            throw new AssertionError(e);
        }
    }

    @Provide
    Arbitrary<String> texts() {
        return Arbitraries.strings().withChars("0123456789abcfF:::...[]% ").ofMaxLength(46);
    }
}
