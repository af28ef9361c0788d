package io.github.spillgate.http.address;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.From;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

class ClientAddressPropertyTest {

    private static final String PROXY = "10.0.0.1";

    private final ClientAddress byXForwardedFor = ClientAddress.ofXForwardedFor("10.0.0.0/8");
    private final ClientAddress byForwarded = ClientAddress.ofForwarded("10.0.0.0/8");

    /**
     * The first trusted proxy appends the address of the client. Nothing that the client has sent can change it.
     */
    @Property
    void theClientAddressIsFoundWhateverTheClientSends(
            @ForAll @Size(max = 4) List<@From("headers") String> sent,
            @ForAll("elements") Element client,
            @ForAll @IntRange(max = 15) int proxies,
            @ForAll boolean inOneLine) {
        assertThat(byXForwardedFor.resolve(
                        PROXY, name -> append(sent, client.xForwardedFor, ", 10.1.2.3:443".repeat(proxies), inOneLine)))
                .contains(client.key);
        assertThat(byForwarded.resolve(
                        PROXY,
                        name -> append(
                                sent, client.forwarded, ", by=_x; For=\"10.1.2.3:443\"".repeat(proxies), inOneLine)))
                .contains(client.key);
    }

    /** The only possible results are the peer and the addresses in the header. */
    @Property
    void aClientAddressIsFoundForAnyHeader(@ForAll @Size(max = 4) List<@From("headers") String> lines) {
        for (ClientAddress address : List.of(byXForwardedFor, byForwarded)) {
            assertThat(address.resolve(PROXY, name -> lines))
                    .hasValueSatisfying(
                            client -> assertThat(Network.parse(client)).isNotNull());
        }
    }

    /** 10/8 is trusted: a client must neither imitate a proxy in it nor use up its limit. */
    @Property
    void anIpv4AddressInATransitionAddressIsCountedAndNeverTrusted(
            @ForAll("transitionForms") String form,
            @ForAll("firstNumbers") int first,
            @ForAll @IntRange(max = 255) int second,
            @ForAll @IntRange(max = 255) int third,
            @ForAll @IntRange(max = 255) int fourth,
            @ForAll @IntRange(min = 32, max = 128) int prefix) {
        int inverted = form.startsWith("2001:0:") ? 255 : 0;
        String client = form.formatted(first ^ inverted, second ^ inverted, third ^ inverted, fourth ^ inverted);
        String v4 = first + "." + second + "." + third + "." + fourth;
        ClientAddress address = byXForwardedFor.ipv6Prefix(prefix);

        String key = address.resolve(PROXY, name -> List.of(client)).orElseThrow();
        String asPeer = address.resolve(client, name -> {
                    throw new AssertionError(client + " was trusted");
                })
                .orElseThrow();

        assertThat(asPeer).isEqualTo(key);
        if (first == 10) {
            assertThat(Network.parse(key).contains(requireNonNull(IpAddress.parse(client))))
                    .isTrue();
            assertThat(key.endsWith("/" + prefix)).isEqualTo(prefix < 128);
        } else {
            assertThat(key).isEqualTo(v4);
        }
    }

    @Provide
    Arbitrary<Integer> firstNumbers() {
        return Arbitraries.frequencyOf(
                Tuple.of(1, Arbitraries.just(10)),
                Tuple.of(3, Arbitraries.integers().between(1, 255)));
    }

    @Provide
    Arbitrary<String> transitionForms() {
        return Arbitraries.of(
                "64:ff9b::%d.%d.%d.%d",
                "::%d.%d.%d.%d",
                "2002:%02x%02x:%02x%02x::1",
                "2002:%02x%02x:%02x%02x:ffff:ffff:ffff:ffff:ffff",
                "2001:0:4136:e378:8000:63bf:%02x%02x:%02x%02x");
    }

    private static List<String> append(List<String> lines, String client, String proxies, boolean inOneLine) {
        List<String> appended = new ArrayList<>(lines);
        if (inOneLine && !lines.isEmpty()) {
            int last = lines.size() - 1;
            appended.set(last, lines.get(last) + ", " + client + proxies);
        } else {
            appended.add(client + proxies);
        }
        return appended;
    }

    @Provide
    Arbitrary<String> headers() {
        Arbitrary<String> pieces = Arbitraries.of(
                "for=",
                "For=\"",
                "\"",
                "\\",
                "\\\"",
                ",",
                ", ",
                ";",
                "=",
                " ",
                "\t",
                "[",
                "]",
                ":",
                "10.0.0.9",
                "1.1.1.1",
                "[::1]",
                "2001:db8::1",
                "_x",
                "unknown",
                "proto=https",
                "by=",
                ":80",
                "\u0000",
                "\u00fc",
                "\ud800");
        return Arbitraries.oneOf(
                pieces.list().ofMaxSize(12).map(list -> String.join("", list)),
                Arbitraries.strings().ofMaxLength(40));
    }

    @Provide
    Arbitrary<Element> elements() {
        return Arbitraries.of(
                new Element("203.0.113.7", "for=203.0.113.7", "203.0.113.7"),
                new Element("203.0.113.7:80", "for=\"203.0.113.7:80\";host=\"a,b\\\"\"", "203.0.113.7"),
                new Element("2001:db8::1", "host=\"\\\\\";for=\"[2001:db8::1]\"", "2001:db8::/64"),
                new Element("[2001:db8::1]:80", "proto=http; for=\"\\[2001:db8::1]:_x\"", "2001:db8::/64"),
                new Element("::ffff:203.0.113.7", "for=\"[::ffff:203.0.113.7]\"", "203.0.113.7"));
    }

    record Element(String xForwardedFor, String forwarded, String key) {}
}
