package io.github.spillgate.http.address;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The proxies stand in 10/8 and in 2001:db8:aaaa::/48, and 10.0.0.1 is next to us. */
class ClientAddressTest {

    private static final String PROXY = "10.0.0.1";
    private static final String CLIENT = "203.0.113.7";

    private final ClientAddress byXForwardedFor = ClientAddress.ofXForwardedFor("10.0.0.0/8", "2001:db8:aaaa::/48");
    private final ClientAddress byForwarded = ClientAddress.ofForwarded("10.0.0.0/8", "2001:db8:aaaa::/48");

    private String xForwardedFor(String... lines) {
        return byXForwardedFor.resolve(PROXY, only("X-Forwarded-For", lines)).orElseThrow();
    }

    private String forwarded(String... lines) {
        return byForwarded.resolve(PROXY, only("Forwarded", lines)).orElseThrow();
    }

    private static Function<String, List<String>> only(String header, String... lines) {
        return name -> name.equals(header) ? Arrays.asList(lines) : List.of();
    }

    private static List<String> mustNotBeRead(String header) {
        throw new AssertionError(header + " was read");
    }

    // Trust.

    @Test
    void anUntrustedPeerIsTheClient() {
        assertThat(byXForwardedFor.resolve("198.51.100.9", ClientAddressTest::mustNotBeRead))
                .contains("198.51.100.9");
        assertThat(byForwarded.resolve("198.51.100.9", ClientAddressTest::mustNotBeRead))
                .contains("198.51.100.9");
    }

    @Test
    void withoutProxiesNoHeaderIsRead() {
        assertThat(ClientAddress.ofPeer().resolve(PROXY, ClientAddressTest::mustNotBeRead))
                .contains(PROXY);
    }

    @Test
    void aTrustedPeerWithoutTheHeaderIsTheClient() {
        assertThat(xForwardedFor()).isEqualTo(PROXY);
        assertThat(forwarded()).isEqualTo(PROXY);
    }

    @Test
    void theLastOneIsTheClientIfItIsNotTrusted() {
        assertThat(xForwardedFor(CLIENT)).isEqualTo(CLIENT);
        assertThat(forwarded("for=" + CLIENT)).isEqualTo(CLIENT);
    }

    @Test
    void trustedOnesArePassedFromTheRight() {
        assertThat(xForwardedFor("1.1.1.1, " + CLIENT + ", 10.0.0.3, 10.0.0.2")).isEqualTo(CLIENT);
        assertThat(xForwardedFor(CLIENT + ",2001:db8:aaaa::9,10.0.0.2")).isEqualTo(CLIENT);
        assertThat(forwarded("for=1.1.1.1, for=" + CLIENT + ", for=\"[2001:db8:aaaa::9]\", for=10.0.0.2"))
                .isEqualTo(CLIENT);
    }

    @Test
    void elementsFromTheClientChangeNothing() {
        assertThat(xForwardedFor("127.0.0.1, " + CLIENT)).isEqualTo(CLIENT);
        assertThat(xForwardedFor("10.0.0.9, " + CLIENT)).isEqualTo(CLIENT);
        assertThat(xForwardedFor("unknown, garbage\u0000, , \"" + ", " + CLIENT))
                .isEqualTo(CLIENT);
        assertThat(forwarded("for=10.0.0.9, for=" + CLIENT)).isEqualTo(CLIENT);
        assertThat(forwarded("for=_hidden;for=;;=, for=" + CLIENT)).isEqualTo(CLIENT);
    }

    /** A quote that never ends would swallow what the proxy has appended, if it were read from the left. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "for=\"",
                "for=\"x\\",
                "\"",
                "\\\"",
                "for=\"1.1.1.1\\\"",
                "\"\"\"",
                "for=\"[2001:db8::1",
                "\\",
                "for=\"\\\\\\"
            })
    void anUnterminatedQuoteDoesNotHideLaterElements(String first) {
        assertThat(forwarded(first + ", for=" + CLIENT)).isEqualTo(CLIENT);
        assertThat(forwarded(first + ", for=\"" + CLIENT + ":4711\";proto=https, for=10.0.0.2"))
                .isEqualTo(CLIENT);
        assertThat(forwarded(first, "for=" + CLIENT)).isEqualTo(CLIENT);
    }

    @Test
    void severalLinesAreOneInTheirOrder() {
        assertThat(xForwardedFor("1.1.1.1", CLIENT, "10.0.0.2")).isEqualTo(CLIENT);
        assertThat(xForwardedFor("1.1.1.1, 2.2.2.2", "10.0.0.3, " + CLIENT)).isEqualTo(CLIENT);
        assertThat(xForwardedFor(CLIENT, "1.1.1.1")).isEqualTo("1.1.1.1");
        assertThat(forwarded("for=1.1.1.1", "for=" + CLIENT, "for=10.0.0.2, for=10.0.0.3"))
                .isEqualTo(CLIENT);
    }

    @Test
    void anElementDoesNotContinueInTheNextHeaderLine() {
        assertThat(forwarded("for=\"203.0.113.7", "\"")).isEqualTo(PROXY);
        assertThat(forwarded("for=", CLIENT)).isEqualTo(PROXY);
    }

    @Test
    void ifAllAreTrustedThePeerIsTheClient() {
        assertThat(xForwardedFor("10.9.9.9, 10.0.0.2")).isEqualTo(PROXY);
        assertThat(forwarded("for=10.9.9.9, for=10.0.0.2")).isEqualTo(PROXY);
    }

    /** A client outside cannot use up the limit of an internal one by writing its address. */
    @Test
    void aTrustedAddressInAHeaderIsNeverTheClient() {
        assertThat(xForwardedFor("10.9.9.9")).isEqualTo(PROXY);
        assertThat(xForwardedFor("2001:db8:aaaa::9")).isEqualTo(PROXY);
        assertThat(xForwardedFor("::ffff:10.9.9.9")).isEqualTo(PROXY);
        assertThat(forwarded("for=\"[::ffff:10.9.9.9]:80\"")).isEqualTo(PROXY);
    }

    @Test
    void theOtherHeaderIsNotRead() {
        Function<String, List<String>> both =
                Map.of("X-Forwarded-For", List.of("1.1.1.1"), "Forwarded", List.of("for=2.2.2.2"))::get;
        assertThat(byXForwardedFor.resolve(PROXY, both)).contains("1.1.1.1");
        assertThat(byForwarded.resolve(PROXY, both)).contains("2.2.2.2");
        assertThat(byXForwardedFor.resolve(PROXY, only("Forwarded", "for=" + CLIENT)))
                .contains(PROXY);
        assertThat(byForwarded.resolve(PROXY, only("X-Forwarded-For", CLIENT))).contains(PROXY);
    }

    @Test
    void theSyntaxOfTheOtherHeaderIsMalformed() {
        assertThat(xForwardedFor("for=" + CLIENT)).isEqualTo(PROXY);
        assertThat(forwarded(CLIENT)).isEqualTo(PROXY);
    }

    @Test
    void theHeaderIsReadOnce() {
        AtomicInteger asked = new AtomicInteger();
        byXForwardedFor.resolve(PROXY, name -> {
            asked.incrementAndGet();
            return List.of(CLIENT + ", 10.0.0.2", "10.0.0.3");
        });
        assertThat(asked).hasValue(1);
    }

    // Elements.

    @ParameterizedTest
    @CsvSource({
        "203.0.113.7:80, 203.0.113.7",
        "203.0.113.7:0, 203.0.113.7",
        "203.0.113.7:65535, 203.0.113.7",
        "2001:db8::1, 2001:db8::/64",
        "[2001:db8::1], 2001:db8::/64",
        "[2001:db8::1]:80, 2001:db8::/64",
        "2001:DB8:0:0:FFFF::1, 2001:db8::/64",
        "::1, ::/64",
        "2001:db8:1:2:3:4:5:6, 2001:db8:1:2::/64",
        "::ffff:203.0.113.7, 203.0.113.7",
        "[::ffff:203.0.113.7]:80, 203.0.113.7",
        "::ffff:cb00:7107, 203.0.113.7"
    })
    void addressesInXForwardedFor(String element, String client) {
        assertThat(xForwardedFor("1.1.1.1," + element)).isEqualTo(client);
        assertThat(xForwardedFor("1.1.1.1, \t " + element + " \t ,\t10.0.0.2:443 "))
                .isEqualTo(client);
    }

    static Stream<String> malformedXForwardedFor() {
        return Stream.concat(Stream.of("203.0.113.7\u0000"), Stream.of("""
                unknown | _hidden | - | localhost | example.org | "203.0.113.7" | 203.0.113 | 203.0.113.07
                203.0.113.7: | 203.0.113.7:65536 | 203.0.113.7:999999 | 203.0.113.7:+80 | 203.0.113.7:_port
                203.0.113.7:80:80 | 203.0.113.7 80 | 203.0.113.7;80 | 203.0.113.7/32 | :80 | [ | ] | [] | []:80
                [203.0.113.7] | [203.0.113.7]:80 | [2001:db8::1 | 2001:db8::1] | [2001:db8::1]80
                [2001:db8::1]: | [2001:db8::1]] | [[2001:db8::1]] | [2001:db8::1]:99999 | fe80::1%eth0
                [fe80::1%25eth0] | 2001:db8::g | 203.0.113.\u0667""".split("\\s*[|\n]\\s*", -1)));
    }

    @ParameterizedTest
    @MethodSource("malformedXForwardedFor")
    void aMalformedXForwardedForSelectsThePeer(String element) {
        assertThat(xForwardedFor(element)).isEqualTo(PROXY);
        assertThat(xForwardedFor("1.1.1.1, " + element + ", 10.0.0.2")).isEqualTo(PROXY);
    }

    @ParameterizedTest
    @CsvSource(
            quoteCharacter = '\'',
            delimiter = '|',
            value = {
                "for=203.0.113.7 | 203.0.113.7",
                "For=203.0.113.7 | 203.0.113.7",
                "FOR=\"203.0.113.7\" | 203.0.113.7",
                "for=\"203.0.113.7:80\" | 203.0.113.7",
                "for=\"203.0.113.7:_p.o-r_t\" | 203.0.113.7",
                "for=\"[2001:db8::1]\" | 2001:db8::/64",
                "for=\"[2001:db8::1]:4711\" | 2001:db8::/64",
                "for=\"[2001:db8::1]:_x\" | 2001:db8::/64",
                "for=\"[::ffff:203.0.113.7]:80\" | 203.0.113.7",
                "for=\"2\\03.0.1\\13.7\" | 203.0.113.7",
                "for=\"\\[2001:db8:\\:1\\]\" | 2001:db8::/64",
                "for=203.0.113.7;proto=https;by=10.0.0.1;host=example.org | 203.0.113.7",
                "proto=https;by=_x;for=203.0.113.7 | 203.0.113.7",
                "proto=https ;\tfor=203.0.113.7 ; by=_x | 203.0.113.7",
                ";;for=203.0.113.7;; | 203.0.113.7",
                "host=\"a, for=1.1.1.1\";for=203.0.113.7 | 203.0.113.7",
                "for=203.0.113.7;host=\"a, for=1.1.1.1\" | 203.0.113.7",
                "for=203.0.113.7;host=\"\\\", for=1.1.1.1\" | 203.0.113.7",
                "for=203.0.113.7;host=\"\\\\\" | 203.0.113.7",
                "for=203.0.113.7;x=\"\\\\\\\", for=1.1.1.1;y=\" | 203.0.113.7",
                "for=203.0.113.7;x=\"\" | 203.0.113.7",
                "for=203.0.113.7;x=\"ü\t\" | 203.0.113.7",
                "for=203.0.113.7;x=\"ÿ\" | 203.0.113.7",
                "xfor=1.1.1.1;for=203.0.113.7;forx=2.2.2.2 | 203.0.113.7"
            })
    void addressesInForwarded(String element, String client) {
        assertThat(forwarded(element)).isEqualTo(client);
        assertThat(forwarded("for=1.1.1.1," + element)).isEqualTo(client);
        assertThat(forwarded("for=1.1.1.1 , \t" + element + "\t ,for=10.0.0.2;by=_y"))
                .isEqualTo(client);
    }

    static Stream<String> malformedForwarded() {
        return Stream.concat(
                Stream.of("for=\"203.0.113.7\u0001\"", "for=203.0.113.7;proto=\"\u0001\""),
                Stream.of("""
                for | for= | =203.0.113.7 | for =203.0.113.7 | for= 203.0.113.7 | for=unknown | for=Unknown
                for="unknown" | for=_hidden | for="_SEVKISEK" | for="unknown:80" | for=203.0.113.7:80
                for=[2001:db8::1] | for=2001:db8::1 | for="2001:db8::1" | for="::1" | for="[203.0.113.7]"
                for="203.0.113.7 | for=203.0.113.7" | for='203.0.113.7' | for="203.0.113.7"x
                for="203.0.113.7" x | for=" 203.0.113.7" | for="203.0.113.7 " | for="203.0.113.7:"
                for="203.0.113.7:_" | for="203.0.113.7:_a b" | for="203.0.113.7:65536" | for=""
                for="203.0.113.7\\ | for="203.0.113.7\\" | for=203.0.113.7;for=203.0.113.7
                for=203.0.113.7;FOR=1.1.1.1 | for=_x;for=203.0.113.7 | for=203.0.113.7;proto
                for=203.0.113.7;proto= | for=203.0.113.7;=https | for=203.0.113.7;proto=a b
                for=203.0.113.7;proto=a=b | for=203.0.113.7;proto="\u0100" | for=203.0.113.7;proto="\\\u007f"
                for=203.0.113.7;pr\u00f6to=a | for=203.0.113.7 proto=https | proto=https | by=203.0.113.7 | ;
                ;;; | for="fe80::1%eth0" | for="[fe80::1%eth0]" | \u017for=203.0.113.7""".split("\\s*[|\n]\\s*", -1)));
    }

    @ParameterizedTest
    @MethodSource("malformedForwarded")
    void aMalformedOrObfuscatedForwardedSelectsThePeer(String element) {
        assertThat(forwarded(element)).isEqualTo(PROXY);
        assertThat(forwarded("for=1.1.1.1, " + element + ", for=10.0.0.2")).isEqualTo(PROXY);
    }

    @Test
    void aNameMayContainEveryCharacterOfAToken() {
        String name = "!#$%&'*+-.^_`|~azAZ09";
        assertThat(forwarded(name + "=x;for=" + CLIENT)).isEqualTo(CLIENT);
        for (int i = 0; i < name.length(); i++) {
            char c = name.charAt(i);
            assertThat(forwarded(c + "=" + c + ";for=" + CLIENT)).isEqualTo(CLIENT);
        }
    }

    @Test
    void emptyElementsAreSkipped() {
        assertThat(xForwardedFor("1.1.1.1,, " + CLIENT + ", ,\t,")).isEqualTo(CLIENT);
        assertThat(xForwardedFor("", CLIENT, "", " ")).isEqualTo(CLIENT);
        assertThat(xForwardedFor("", " ", ",")).isEqualTo(PROXY);
        assertThat(forwarded("for=" + CLIENT + ", ,", "")).isEqualTo(CLIENT);
    }

    // IPv6 addresses that carry an IPv4 address.

    @Test
    void clientsBehindNat64AreCountedOneByOne() {
        ClientAddress address = ClientAddress.ofPeer();
        assertThat(address.resolve("64:ff9b::cb00:7107", ClientAddressTest::mustNotBeRead))
                .contains("203.0.113.7");
        assertThat(address.resolve("64:ff9b::cb00:7108", ClientAddressTest::mustNotBeRead))
                .contains("203.0.113.8");
        assertThat(xForwardedFor("64:ff9b::203.0.113.7")).isEqualTo("203.0.113.7");
        assertThat(forwarded("for=\"[64:ff9b::cb00:7107]:443\"")).isEqualTo("203.0.113.7");
    }

    /** A site has 65,536 networks of 64 bits, and would have as many counts. */
    @Test
    void allNetworksOfA6to4SiteShareTheCountOfItsIpv4Address() {
        assertThat(xForwardedFor("2002:cb00:7107:1::1")).isEqualTo("203.0.113.7");
        assertThat(xForwardedFor("2002:cb00:7107:2::1")).isEqualTo("203.0.113.7");
    }

    @Test
    void anEmbeddedAddressOfATrustedNetworkIsNeitherTrustedNorTheClient() {
        assertThat(byXForwardedFor.resolve("64:ff9b::10.0.0.1", ClientAddressTest::mustNotBeRead))
                .contains("64:ff9b::/64");
        assertThat(xForwardedFor(CLIENT + ", 64:ff9b::10.0.0.2")).isEqualTo("64:ff9b::/64");
        assertThat(xForwardedFor(CLIENT + ", ::10.0.0.2")).isEqualTo("::/64");
        assertThat(xForwardedFor(CLIENT + ", 2002:a00:2::1")).isEqualTo("2002:a00:2::/64");
    }

    @Test
    void aProxyBehindATranslatorIsTrustedByItsIpv6Address() {
        ClientAddress address = ClientAddress.ofXForwardedFor("64:ff9b::10.0.0.0/104");
        assertThat(address.resolve("64:ff9b::10.0.0.2", only("X-Forwarded-For", CLIENT)))
                .contains(CLIENT);
        assertThat(address.resolve("10.0.0.2", ClientAddressTest::mustNotBeRead))
                .contains("10.0.0.2");
    }

    // Bounds.

    @Test
    void noMoreElementsAreReadThanAreAllowed() {
        String fifteen = ", 10.0.0.2".repeat(15);
        assertThat(xForwardedFor(CLIENT + fifteen)).isEqualTo(CLIENT);
        assertThat(xForwardedFor(CLIENT + fifteen + ", 10.0.0.2")).isEqualTo(PROXY);
        assertThat(xForwardedFor(CLIENT + fifteen + ",")).isEqualTo(PROXY);
        assertThat(forwarded("for=" + CLIENT + ", for=10.0.0.2".repeat(15))).isEqualTo(CLIENT);
        assertThat(forwarded("for=" + CLIENT + ", for=10.0.0.2".repeat(16))).isEqualTo(PROXY);
        assertThat(xForwardedFor(behindEmptyLines(15))).isEqualTo(CLIENT);
        assertThat(xForwardedFor(behindEmptyLines(16))).isEqualTo(PROXY);
        ClientAddress twoHops = byXForwardedFor.maxHops(2);
        assertThat(twoHops.resolve(PROXY, name -> List.of(CLIENT, "10.0.0.2"))).contains(CLIENT);
        assertThat(twoHops.resolve(PROXY, name -> List.of(CLIENT, "10.0.0.3", "10.0.0.2")))
                .contains(PROXY);
    }

    private static String[] behindEmptyLines(int number) {
        String[] lines = new String[number + 1];
        Arrays.fill(lines, "");
        lines[0] = CLIENT;
        return lines;
    }

    /** Otherwise a client could use up the limit that all clients behind the proxy would share. */
    @Test
    void aThousandHopsOfTheClientAreNotRead() {
        assertThat(xForwardedFor("10.0.0.2, ".repeat(1_000) + CLIENT + ", 10.0.0.2"))
                .isEqualTo(CLIENT);
        assertThat(forwarded("for=10.0.0.2, ".repeat(1_000) + "for=" + CLIENT)).isEqualTo(CLIENT);
    }

    @Test
    void anElementAboveTheMaximumLengthIsMalformed() {
        String space = " ".repeat(ForwardingHeader.LONGEST_ELEMENT - CLIENT.length());
        assertThat(xForwardedFor("1.1.1.1," + space + CLIENT)).isEqualTo(CLIENT);
        assertThat(xForwardedFor("1.1.1.1, " + space + CLIENT)).isEqualTo(PROXY);
        String host = "for=" + CLIENT + ";host=" + "x".repeat(ForwardingHeader.LONGEST_ELEMENT);
        assertThat(forwarded(host)).isEqualTo(PROXY);
        assertThat(forwarded(host.substring(0, ForwardingHeader.LONGEST_ELEMENT)))
                .isEqualTo(CLIENT);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "10.0.0.2,",
                ",",
                " ",
                "x",
                "\"",
                "\\",
                "\\\"",
                "\",",
                ";",
                "for=10.0.0.2,",
                "for=\"\\\"\",",
                ":",
                "["
            })
    @Timeout(120) // it would take hours if all of the input were looked at
    void hugeInputCostsNothing(String piece) {
        String huge = piece.repeat(4_000_000 / piece.length());
        List<String> manyLines = Collections.nCopies(10_000, piece);
        List<String> manyHugeLines = Collections.nCopies(10_000, huge);
        for (int i = 0; i < 100; i++) {
            assertThat(xForwardedFor(huge)).isEqualTo(PROXY);
            assertThat(forwarded(huge)).isEqualTo(PROXY);
            for (ClientAddress address : List.of(byXForwardedFor, byForwarded)) {
                assertThat(address.resolve(PROXY, name -> manyLines)).contains(PROXY);
                assertThat(address.resolve(PROXY, name -> manyHugeLines)).contains(PROXY);
            }
        }
    }

    @Test
    void anElementAfterHugeInputIsFound() {
        for (String piece : List.of(",", "\"", "\\", "x", "10.0.0.2, ")) {
            String huge = piece.repeat(1_000_000) + ", ";
            assertThat(xForwardedFor(huge + CLIENT)).isEqualTo(CLIENT);
            assertThat(forwarded(huge + "for=" + CLIENT)).isEqualTo(CLIENT);
        }
    }

    // The peer.

    @Test
    void thePeerIsUnwrappedAndCutToo() {
        ClientAddress peer = ClientAddress.ofPeer();
        assertThat(peer.resolve("::ffff:203.0.113.7", ClientAddressTest::mustNotBeRead))
                .contains(CLIENT);
        assertThat(peer.resolve("2001:db8:0:0:0:0:0:1", ClientAddressTest::mustNotBeRead))
                .contains("2001:db8::/64");
        assertThat(peer.resolve("fe80:0:0:0:0:0:0:1%eth0", ClientAddressTest::mustNotBeRead))
                .contains("fe80::/64");
    }

    @Test
    void aTrustedPeerMayBeAMappedOrScopedAddress() {
        assertThat(byXForwardedFor.resolve("::ffff:10.0.0.1", name -> List.of(CLIENT)))
                .contains(CLIENT);
        assertThat(byXForwardedFor.resolve("2001:db8:aaaa:0::1%7", name -> List.of(CLIENT)))
                .contains(CLIENT);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"", "/var/run/app.sock", "localhost", "unknown", "10.0.0.1:80", "[::1]", "%eth0", "10.0.0.01"})
    void aPeerThatIsNoAddressHasNoKey(String peer) {
        assertThat(byXForwardedFor.resolve(peer, ClientAddressTest::mustNotBeRead))
                .isEmpty();
        assertThat(ClientAddress.ofPeer().resolve(peer, ClientAddressTest::mustNotBeRead))
                .isEmpty();
    }

    @Test
    void aConnectionWithoutAPeerHasNoKey() {
        assertThat(byXForwardedFor.resolve(null, ClientAddressTest::mustNotBeRead))
                .isEmpty();
    }

    // Settings.

    @ParameterizedTest
    @CsvSource({
        "32, 2001:db8::/32",
        "48, 2001:db8:1::/48",
        "56, 2001:db8:1:200::/56",
        "64, 2001:db8:1:2ff::/64",
        "127, 2001:db8:1:2ff:ffff::6/127",
        "128, 2001:db8:1:2ff:ffff::7"
    })
    void onlyThePrefixOfAnIpv6AddressCounts(int prefix, String client) {
        assertThat(ClientAddress.ofPeer()
                        .ipv6Prefix(prefix)
                        .resolve("2001:db8:1:2ff:ffff::7", ClientAddressTest::mustNotBeRead))
                .contains(client);
        assertThat(ClientAddress.ofPeer().ipv6Prefix(prefix).resolve(CLIENT, ClientAddressTest::mustNotBeRead))
                .contains(CLIENT);
    }

    @Test
    void trustIsCheckedBeforeThePrefixIsCut() {
        ClientAddress oneProxy = ClientAddress.ofXForwardedFor("2001:db8::1");
        assertThat(oneProxy.resolve("2001:db8::1", name -> List.of(CLIENT))).contains(CLIENT);
        assertThat(oneProxy.resolve("2001:db8::2", name -> List.of(CLIENT))).contains("2001:db8::/64");
    }

    @Test
    void settingsOutOfRangeAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> byForwarded.ipv6Prefix(31))
                .withMessage("IPv6 prefix 31 is out of range: expected 32 to 128, for example 64");
        assertThatIllegalArgumentException().isThrownBy(() -> byForwarded.ipv6Prefix(129));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> byForwarded.maxHops(0))
                .withMessage("number of hops 0 is out of range: expected 1 to 64, for example 16");
        assertThatIllegalArgumentException().isThrownBy(() -> byForwarded.maxHops(65));
    }

    @Test
    void aHeaderWithoutATrustedProxyIsRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(ClientAddress::ofXForwardedFor)
                .withMessage(
                        "no network is trusted, so X-Forwarded-For would never be read: expected one network at least,"
                                + " for example \"10.0.0.0/8\", or ClientAddress.ofPeer()");
        assertThatIllegalArgumentException().isThrownBy(() -> ClientAddress.ofForwarded());
        assertThatNullPointerException()
                .isThrownBy(() -> ClientAddress.ofForwarded((String[]) null))
                .withMessageContaining("expected some, for example");
    }

    @Test
    void invalidNetworksAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ClientAddress.ofForwarded("10.0.0.0/8", "proxy.example.org"))
                .withMessageContaining("\"proxy.example.org\"");
    }

    @Test
    void settingsAreShownInLogs() {
        assertThat(byXForwardedFor)
                .hasToString("ClientAddress[X-Forwarded-For from [10.0.0.0/8, 2001:db8:aaaa::/48], maxHops=16,"
                        + " ipv6Prefix=64]");
        assertThat(ClientAddress.ofPeer()).hasToString("ClientAddress[peer, ipv6Prefix=64]");
    }
}
