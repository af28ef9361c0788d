package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.From;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

class ClientAddressPropertyTest {

    private static final String PROXY = "10.0.0.1";

    private final ClientAddress byXForwardedFor = ClientAddress.ofXForwardedFor("10.0.0.0/8");
    private final ClientAddress byForwarded = ClientAddress.ofForwarded("10.0.0.0/8");

    /** What the first trusted proxy notes is who sent it the request, and nothing that he sent with it can change that. */
    @Property
    void whateverTheClientWritesHeIsFound(
            @ForAll @Size(max = 4) List<@From("headers") String> his,
            @ForAll("elements") Element client,
            @ForAll @IntRange(max = 15) int proxies,
            @ForAll boolean inOneLine) {
        assertThat(byXForwardedFor.resolve(
                        PROXY, name -> append(his, client.xForwardedFor, ", 10.1.2.3:443".repeat(proxies), inOneLine)))
                .contains(client.key);
        assertThat(byForwarded.resolve(
                        PROXY,
                        name -> append(
                                his, client.forwarded, ", by=_x; For=\"10.1.2.3:443\"".repeat(proxies), inOneLine)))
                .contains(client.key);
    }

    /** Nothing else can come out: the peer, or an address that is written there. */
    @Property
    void whateverIsWrittenSomebodyIsFound(@ForAll @Size(max = 4) List<@From("headers") String> lines) {
        for (ClientAddress address : List.of(byXForwardedFor, byForwarded)) {
            assertThat(address.resolve(PROXY, name -> lines))
                    .hasValueSatisfying(
                            client -> assertThat(Network.parse(client)).isNotNull());
        }
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
