package io.github.spillgate.http.address;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

class NetworkTest {

    @ParameterizedTest
    @CsvSource({
        "10.0.0.0/8, 10.0.0.0, true",
        "10.0.0.0/8, 10.255.255.255, true",
        "10.0.0.0/8, 11.0.0.0, false",
        "10.0.0.0/8, 9.255.255.255, false",
        "192.0.2.128/25, 192.0.2.127, false",
        "192.0.2.128/25, 192.0.2.128, true",
        "192.0.2.7, 192.0.2.7, true",
        "192.0.2.7, 192.0.2.6, false",
        "192.0.2.7/32, 192.0.2.7, true",
        "128.0.0.0/1, 255.0.0.1, true",
        "128.0.0.0/1, 127.0.0.1, false",
        "2001:db8::/32, 2001:db8:ffff::1, true",
        "2001:db8::/32, 2001:db9::, false",
        "2001:db8::/65, 2001:db8::7fff:0:0:1, true",
        "2001:db8::/65, 2001:db8::8000:0:0:1, false",
        "2001:db8::1, 2001:db8::1, true",
        "2001:db8::1/128, 2001:db8::2, false",
        "::ffff:10.0.0.0/104, 10.1.2.3, true",
        "::ffff:a00:0/104, 10.1.2.3, true",
        "::ffff:10.0.0.0/104, 11.1.2.3, false",
        "::ffff:192.0.2.7, 192.0.2.7, true",
        "10.0.0.0/8, ::ffff:10.1.2.3, true",
        "10.0.0.0/8, ::10.1.2.3, false",
        "a00::/8, 10.1.2.3, false",
        "10.0.0.0/8, a00::1, false"
    })
    void aNetworkContainsTheAddressesWithItsPrefix(String network, String address, boolean holds) {
        assertThat(Network.parse(network).contains(requireNonNull(IpAddress.parse(address))))
                .isEqualTo(holds);
    }

    static Stream<String> names() {
        return Stream.concat(Stream.of("", " 10.0.0.0/8"), Stream.of("""
                / | /8 | localhost | localhost/8 | proxy.example.org | 10.0.0/8 | 10/8 | 10.0.0.0.0/8 | [::1]
                fe80::1%eth0 | fe80::%eth0/64 | 10.0.0.0 /8 | *""".split("\\s*[|\n]\\s*", -1)));
    }

    @ParameterizedTest
    @MethodSource("names")
    void hostNamesAreRejectedAndNotLookedUp(String text) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse(text))
                .withMessage(
                        "trusted network \"" + text + "\" is none: expected an IPv4 or IPv6 address, and the number of"
                                + " bits that count unless it is a single one (names are not looked up), for example"
                                + " \"10.0.0.0/8\", \"192.0.2.7\" or \"fd00::/8\"");
    }

    static Stream<String> prefixes() {
        return Stream.concat(Stream.of("10.0.0.0/8 "), Stream.of("""
                10.0.0.0/ | 10.0.0.0/33 | 10.0.0.0/-1 | 10.0.0.0/+8 | 10.0.0.0/08 | 10.0.0.0/8/8
                10.0.0.0/255.0.0.0 | 10.0.0.0/99999999999 | 10.0.0.0/\u0668""".split("\\s*[|\n]\\s*", -1)));
    }

    @ParameterizedTest
    @MethodSource("prefixes")
    void invalidPrefixesAreRejected(String text) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse(text))
                .withMessageStartingWith(
                        "trusted network \"" + text.replace("\u0668", "\\u0668") + "\" has no such prefix")
                .withMessageEndingWith("expected from 1 to 32 bits after the slash, for example \"10.0.0.0/32\"");
    }

    @Test
    void aNetworkOfAllAddressesIsRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("0.0.0.0/0"))
                .withMessageContaining("expected from 1 to 32");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("::/0"))
                .withMessageContaining("expected from 1 to 128");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("::ffff:0.0.0.0/96"))
                .withMessageContaining("expected from 97 to 128");
    }

    @Test
    void bitsAfterThePrefixAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("10.1.2.3/8"))
                .withMessage(
                        "trusted network \"10.1.2.3/8\" has bits after its prefix: expected either the network or the"
                                + " address, for example \"10.0.0.0/8\" or \"10.1.2.3\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("2001:db8::1/64"))
                .withMessageEndingWith("for example \"2001:db8::/64\" or \"2001:db8::1\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("::ffff:10.1.2.3/104"))
                .withMessageEndingWith("for example \"10.0.0.0/8\" or \"10.1.2.3\"");
    }

    @Test
    void messagesAreShortAndOnOneLine() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Network.parse("a\nb\u001b" + "c".repeat(1_000_000)))
                .satisfies(e -> assertThat(e.getMessage())
                        .hasSizeLessThan(400)
                        .startsWith("trusted network \"a\\u000ab\\u001bccc")
                        .contains("…\" (1000004 characters)"));
        assertThatNullPointerException()
                .isThrownBy(() -> Network.parse(null))
                .withMessageContaining("expected one, for example");
    }

    @Test
    void aNetworkHasOneText() {
        assertThat(Network.parse("2001:DB8:0::/48")).hasToString("2001:db8::/48");
        assertThat(Network.parse("::ffff:10.0.0.0/104")).hasToString("10.0.0.0/8");
        assertThat(Network.parse("192.0.2.7")).hasToString("192.0.2.7/32");
    }
}
