package io.github.spillgate.http.settings;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ClientAddressSettingsTest {

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    NONE            | peer
                    X_FORWARDED_FOR | X-Forwarded-For from [10.0.0.0/8], maxHops=3
                    FORWARDED       | Forwarded from [10.0.0.0/8], maxHops=3
                    """)
    void allSettingsAreUsed(ClientAddressSettings.Header header, String source) {
        List<String> proxies = header == ClientAddressSettings.Header.NONE ? List.of() : List.of("10.0.0.0/8");
        assertThat(new Settings(header, proxies, 56, 3).read("client-address"))
                .hasToString("ClientAddress[" + source + ", ipv6Prefix=56]");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    10.0.0.0/8 | 56 | 65 | client-address.max-hops        | number of hops 65 is out of range
                    10.0.0.0/8 | 8  | 3  | client-address.ipv6-prefix     | IPv6 prefix 8 is out of range
                    proxy      | 56 | 3  | client-address.trusted-proxies | proxy
                    """)
    void anInvalidSettingIsNamed(String proxy, int ipv6Prefix, int maxHops, String setting, String why) {
        Settings settings = new Settings(ClientAddressSettings.Header.FORWARDED, List.of(proxy), ipv6Prefix, maxHops);
        assertThatThrownBy(() -> settings.read("client-address"))
                .isInstanceOfSatisfying(WrongSettingException.class, wrong -> {
                    assertThat(wrong.setting()).isEqualTo(setting);
                    assertThat(wrong.why()).contains(why);
                });
    }

    /** Otherwise all clients behind the proxies would share the limits of the proxies' addresses. */
    @Test
    void trustedProxiesWithoutAHeaderAreRejected() {
        Settings settings = new Settings(ClientAddressSettings.Header.NONE, List.of("10.0.0.0/8"), 56, 3);
        assertThatThrownBy(() -> settings.read("client-address"))
                .isInstanceOf(WrongSettingException.class)
                .hasMessage("client-address.header: proxies [10.0.0.0/8] are trusted, but no header of theirs is read:"
                        + " expected x-forwarded-for or forwarded, the one that your proxies write");
    }

    private record Settings(Header header, List<String> trustedProxies, int ipv6Prefix, int maxHops)
            implements ClientAddressSettings {}
}
