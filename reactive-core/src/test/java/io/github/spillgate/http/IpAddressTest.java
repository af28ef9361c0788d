package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
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
    void whatOnlyLooksMappedIsNot(String text) {
        assertThat(IpAddress.parse(text))
                .isNotNull()
                .extracting(IpAddress::bits)
                .isEqualTo(128);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                " ",
                ".",
                ":",
                "localhost",
                "example.org",
                "unknown",
                "1",
                "1.2",
                "1.2.3",
                "1.2.3.",
                "1.2.3.4.",
                ".1.2.3.4",
                "1.2.3.4.5",
                "1..3.4",
                "1.2.3.256",
                "1.2.3.1000",
                "1.2.3.04",
                "01.2.3.4",
                "00.0.0.0",
                "0x7f.0.0.1",
                "2130706433",
                "1.2.3.-4",
                "+1.2.3.4",
                "1.2.3.4 ",
                " 1.2.3.4",
                "1.2.3.4/8",
                "1.2.3.4:80",
                "1.2.3.\u0664",
                "\uff11.2.3.4",
                ":::",
                "::1::",
                "1::2::3",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8:9",
                "1:2:3:4:5:6:7:8::",
                "::1:2:3:4:5:6:7:8",
                "1:2:3:4::5:6:7:8",
                ":1:2:3:4:5:6:7:8",
                ":1::2",
                "1:2:3:4:5:6:7:",
                "1::2:",
                "12345::",
                "00001::",
                "g::",
                "::g",
                "::\uff11",
                "[::1]",
                "::1%eth0",
                "fe80::1%1",
                "::1/64",
                "::1.2.3",
                "::1.2.3.4.5",
                "::1.2.3.4:5",
                "1.2.3.4::",
                "::01.2.3.4",
                "1:2:3:4:5:6:7:1.2.3.4",
                "1:2:3:4:5:1.2.3.4",
                "::ffff:1.2.3.256",
                "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555"
            })
    void whatIsNoAddressIsRefused(String text) {
        assertThat(IpAddress.parse(text)).isNull();
    }

    @Test
    void whatIsFarTooLongIsRefusedAtOnce() {
        assertThat(IpAddress.parse("1".repeat(10_000_000))).isNull();
        assertThat(IpAddress.parse(":".repeat(10_000_000))).isNull();
    }
}
