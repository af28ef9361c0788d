package io.github.spillgate.http.address;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class IpAddressTest {

    @ParameterizedTest
    @CsvSource({
        "0.0.0.0, 0.0.0.0",
        "192.0.2.1, 192.0.2.1",
        "255.255.255.255, 255.255.255.255",
        "::, ::",
        "::1, ::1",
        "1::, 1::",
        "2001:DB8:0:0:0:0:0:1, 2001:db8::1",
        "2001:0db8::0001, 2001:db8::1",
        "2001:db8:0:1:1:1:1:1, 2001:db8:0:1:1:1:1:1",
        "2001:db8::1:1:1:1:1, 2001:db8:0:1:1:1:1:1",
        "2001:0:0:1:0:0:0:1, 2001:0:0:1::1",
        "2001:db8:0:0:1:0:0:1, 2001:db8::1:0:0:1",
        "1:2:3:4:5:6:7::, 1:2:3:4:5:6:7:0",
        "::2:3:4:5:6:7:8, 0:2:3:4:5:6:7:8",
        "0:0:3:4:5:6:0:0, ::3:4:5:6:0:0",
        "1:2:3:0:0:4:0:0, 1:2:3::4:0:0",
        "2001:db8::, 2001:db8::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff, ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255, ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "64:ff9b::192.0.2.33, 64:ff9b::c000:221",
        "1:2:3:4:5:6:1.2.3.4, 1:2:3:4:5:6:102:304",
        "::1.2.3.4, ::102:304"
    })
    void eachAddressHasOneText(String text, String canonical) {
        IpAddress address = IpAddress.parse(text);
        assertThat(address).isNotNull().hasToString(canonical);
        assertThat(IpAddress.parse(canonical)).isEqualTo(address);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "::ffff:192.0.2.1",
                "::FFFF:192.0.2.1",
                "::ffff:c000:201",
                "0:0:0:0:0:ffff:192.0.2.1",
                "0000:0000:0000:0000:0000:ffff:c000:0201"
            })
    void anIpv4MappedAddressIsTheIpv4Address(String text) {
        assertThat(IpAddress.parse(text)).isEqualTo(IpAddress.parse("192.0.2.1"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "::192.0.2.1",
                "::fffe:192.0.2.1",
                "::1:ffff:192.0.2.1",
                "::ffff:0:192.0.2.1",
                "8000::ffff:192.0.2.1"
            })
    void addressesThatOnlyLookMappedAreNot(String text) {
        assertThat(IpAddress.parse(text))
                .isNotNull()
                .extracting(IpAddress::bits)
                .isEqualTo(128);
    }

    @ParameterizedTest
    @CsvSource({
        // NAT64 with the well-known prefix
        "64:ff9b::192.0.2.33, 192.0.2.33",
        "64:ff9b::c000:221, 192.0.2.33",
        "64:ff9b::255.255.255.255, 255.255.255.255",
        // 6to4: every network and host of a site
        "2002:c000:221::, 192.0.2.33",
        "2002:c000:221:ffff:1:2:3:4, 192.0.2.33",
        "2002:ffff:ffff::1, 255.255.255.255",
        // Teredo, the example of RFC 4380: each bit of the client's address is inverted
        "2001:0000:4136:e378:8000:63bf:3fff:fdd2, 192.0.2.45",
        "2001::, 255.255.255.255",
        // IPv4-compatible
        "::192.0.2.33, 192.0.2.33",
        "::1.0.0.0, 1.0.0.0"
    })
    void theIpv4AddressInATransitionAddressIsFound(String text, String v4) {
        assertThat(requireNonNull(IpAddress.parse(text)).embeddedV4()).isEqualTo(IpAddress.parse(v4));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "192.0.2.33",
                "::ffff:192.0.2.33",
                "::",
                "::1",
                "::0.255.255.255",
                "::1:0:0",
                "::1:192.0.2.33",
                "::ffff:0:192.0.2.33",
                "1::192.0.2.33",
                "64:ff9b::",
                "64:ff9b::0.255.255.255",
                "64:ff9b::1:192.0.2.33",
                "64:ff9b:0:1::192.0.2.33",
                // local-use NAT64: /48, /56, /64 and /96 all occur
                "64:ff9b:1::192.0.2.33",
                "64:ff9b:1:c000:2:2100::",
                "64:ff9a::192.0.2.33",
                "64:ff9c::192.0.2.33",
                "65:ff9b::192.0.2.33",
                "2001:db8::192.0.2.33",
                "2001:1::192.0.2.33",
                "2003:c000:221::",
                "2002::",
                "2002:ff:ffff::1",
                // ISATAP: the owner of 2001:db8::/64 may write any IPv4 address here
                "2001:db8::5efe:192.0.2.33",
                "2001:db8::200:5efe:192.0.2.33",
                "fe80::5efe:192.0.2.33"
            })
    void otherAddressesCarryNoIpv4Address(String text) {
        assertThat(requireNonNull(IpAddress.parse(text)).embeddedV4()).isNull();
    }

    static Stream<String> invalid() {
        return Stream.concat(Stream.of("", " ", "1.2.3.4 ", " 1.2.3.4"), Stream.of("""
                . | : | localhost | example.org | unknown | 1 | 1.2 | 1.2.3 | 1.2.3. | 1.2.3.4. | .1.2.3.4
                1.2.3.4.5 | 1..3.4 | 1.2.3.256 | 1.2.3.1000 | 1.2.3.04 | 01.2.3.4 | 00.0.0.0 | 0x7f.0.0.1
                2130706433 | 1.2.3.-4 | +1.2.3.4 | 1.2.3.4/8 | 1.2.3.4:80 | 1.2.3.\u0664 | \uff11.2.3.4 | :::
                ::1:: | 1::2::3 | 1:2:3:4:5:6:7 | 1:2:3:4:5:6:7:8:9 | 1:2:3:4:5:6:7:8:: | ::1:2:3:4:5:6:7:8
                1:2:3:4::5:6:7:8 | :1:2:3:4:5:6:7:8 | :1::2 | 1:2:3:4:5:6:7: | 1::2: | 12345:: | 00001:: | g::
                ::g | ::\uff11 | [::1] | ::1%eth0 | fe80::1%1 | ::1/64 | ::1.2.3 | ::1.2.3.4.5 | ::1.2.3.4:5
                1.2.3.4:: | ::01.2.3.4 | 1:2:3:4:5:6:7:1.2.3.4 | 1:2:3:4:5:1.2.3.4 | ::ffff:1.2.3.256
                ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555""".split("\\s*[|\n]\\s*", -1)));
    }

    @ParameterizedTest
    @MethodSource("invalid")
    void invalidAddressesAreRejected(String text) {
        assertThat(IpAddress.parse(text)).isNull();
    }

    @Test
    void textThatIsFarTooLongIsRejectedImmediately() {
        assertThat(IpAddress.parse("1".repeat(10_000_000))).isNull();
        assertThat(IpAddress.parse(":".repeat(10_000_000))).isNull();
    }
}
