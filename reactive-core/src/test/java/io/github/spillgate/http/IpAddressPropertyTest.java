package io.github.spillgate.http;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import java.net.InetAddress;
import java.net.UnknownHostException;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import net.jqwik.api.constraints.IntRange;

/** The JDK, which reads and writes addresses too, is the witness. */
class IpAddressPropertyTest {

    @Property
    void whatTheJdkWritesIsRead(@ForAll("addresses") InetAddress address) throws UnknownHostException {
        IpAddress read = requireNonNull(IpAddress.parse(address.getHostAddress()));
        assertThat(InetAddress.getByName(read.toString())).isEqualTo(address);
        assertThat(IpAddress.parse(read.toString())).isEqualTo(read);
        assertThat(read.toString())
                .hasSizeLessThanOrEqualTo(address.getHostAddress().length());
    }

    @Property
    void whatSharesAPrefixHasTheSameFirstAddress(
            @ForAll("addresses") InetAddress one,
            @ForAll("addresses") InetAddress other,
            @ForAll @IntRange(max = 128) int prefix) {
        IpAddress a = requireNonNull(IpAddress.parse(one.getHostAddress()));
        IpAddress b = requireNonNull(IpAddress.parse(other.getHostAddress()));
        assertThat(a.shares(prefix, b)).isEqualTo(a.cut(prefix).equals(b.cut(prefix)));
        assertThat(a.shares(prefix, a.cut(prefix))).isTrue();
    }

    @Property
    void whatIsCutHasNoBitsAfterThePrefix(
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

    @Property
    void nothingMakesItThrow(@ForAll("texts") String text) {
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
                .map(bytes -> {
                    try {
                        return InetAddress.getByAddress(bytes);
                    } catch (UnknownHostException e) {
                        throw new AssertionError(e);
                    }
                });
    }

    @Provide
    Arbitrary<String> texts() {
        return Arbitraries.strings().withChars("0123456789abcfF:::...[]% ").ofMaxLength(46);
    }
}
