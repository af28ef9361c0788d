package io.github.spillgate.http.address;

import io.github.spillgate.internal.Checks;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A source of the client's address, also behind proxies, for use as a key.
 *
 * <pre>{@code
 * ClientAddress.ofPeer()                                           // no proxy, or none that is trusted
 * ClientAddress.ofXForwardedFor("10.0.0.0/8", "2001:db8:1::/48")   // proxies in these networks write X-Forwarded-For
 * ClientAddress.ofForwarded("192.0.2.7").ipv6Prefix(56)            // this one writes Forwarded, as in RFC 7239
 * }</pre>
 *
 * <h2>Trusted proxies</h2>
 *
 * <p>Any client can send a forwarding header, so only elements that trusted proxies have written are used. The peer is
 * the other end of the connection. If the peer is not trusted, it is the client, and no header is read. If the peer is
 * trusted, the last element of the header is the address from which the peer received the request; if that address is
 * trusted too, the element before it is read in the same way, and so on. The first address that is not trusted is the
 * client. Elements to the left of it are not read, because the client may have written them.
 *
 * <p>The peer is the client if:
 *
 * <ul>
 *   <li>the header is missing, or an element that has to be read is malformed, obfuscated or {@code unknown}. All
 *       requests through this peer then share a limit, and no client has chosen its key;
 *   <li>more than {@link #maxHops(int)} elements would have to be read;
 *   <li>all elements are trusted. A header therefore never makes a trusted address the client, and no outside client
 *       can use up the limit of an internal one.
 * </ul>
 *
 * <p>Any host in a trusted network can forge addresses. Trust the addresses of the proxies, not a network that also
 * contains clients. Only one kind of header is read: a proxy that appends to one passes the other on as the client sent
 * it.
 *
 * <h2>Result</h2>
 *
 * <p>An IPv4 address, such as {@code 192.0.2.1}, or the prefix of an IPv6 address, such as {@code 2001:db8:1:2::/64}. A
 * client has a whole IPv6 network and could use another address for each request. Each address has exactly one text,
 * for IPv6 that of RFC 5952. An IPv4-mapped IPv6 address is always treated as the IPv4 address. Ports are ignored. The
 * zone of a peer, as in {@code fe80::1%eth0}, is dropped; in a header it is malformed, because a zone is only valid on
 * the machine that wrote it.
 *
 * <p>An IPv6 address that contains an IPv4 address is counted as the IPv4 address. This applies to NAT64 with
 * the well-known prefix {@code 64:ff9b::/96}, to 6to4 ({@code 2002::/16}), to Teredo ({@code 2001::/32}) and to {@code
 * ::192.0.2.1}. It never makes an address trusted: {@code 64:ff9b::10.0.0.1} is not in {@code 10.0.0.0/8}. If the IPv4
 * address is in a trusted network, the client is counted by its IPv6 prefix instead, so that it cannot use up the limit
 * of a proxy.
 *
 * <p>There are no DNS lookups, and a header of any size costs no more than its last few elements. Immutable and
 * thread-safe.
 */
public final class ClientAddress {

    private static final int DEFAULT_PREFIX = 64;
    private static final int SHORTEST_PREFIX = 32;
    private static final int DEFAULT_HOPS = 16;
    private static final int MOST_HOPS = 64;
    private static final String NETWORK = "\"10.0.0.0/8\"";

    private final @Nullable ForwardingHeader header;
    private final List<Network> trusted;
    private final int ipv6Prefix;
    private final int maxHops;

    private ClientAddress(@Nullable ForwardingHeader header, List<Network> trusted, int ipv6Prefix, int maxHops) {
        this.header = header;
        this.trusted = trusted;
        this.ipv6Prefix = ipv6Prefix;
        this.maxHops = maxHops;
    }

    /**
     * Returns a source that uses the peer as the client and reads no header.
     *
     * @return the source
     */
    public static ClientAddress ofPeer() {
        return new ClientAddress(null, List.of(), DEFAULT_PREFIX, DEFAULT_HOPS);
    }

    /**
     * Returns a source that reads {@code X-Forwarded-For} if proxies in these networks have written it.
     *
     * @param trusted networks, such as {@code 10.0.0.0/8} or {@code fd00::/8}, and single addresses; no host names
     * @return the source
     * @throws IllegalArgumentException if there is no network, or one of them cannot be parsed
     */
    public static ClientAddress ofXForwardedFor(String... trusted) {
        return of(ForwardingHeader.X_FORWARDED_FOR, trusted);
    }

    /**
     * Returns a source that reads {@code Forwarded}, as in RFC 7239, if proxies in these networks have written it.
     *
     * @param trusted networks and addresses, as for {@link #ofXForwardedFor(String...)}
     * @return the source
     * @throws IllegalArgumentException if there is no network, or one of them cannot be parsed
     */
    public static ClientAddress ofForwarded(String... trusted) {
        return of(ForwardingHeader.FORWARDED, trusted);
    }

    private static ClientAddress of(ForwardingHeader header, String... trusted) {
        Checks.some(trusted, "trusted networks", NETWORK);
        if (trusted.length == 0) {
            throw new IllegalArgumentException("no network is trusted, so " + header.headerName()
                    + " would never be read: expected one network at least, for example " + NETWORK
                    + ", or ClientAddress.ofPeer()");
        }
        return new ClientAddress(
                header, Arrays.stream(trusted).map(Network::parse).toList(), DEFAULT_PREFIX, DEFAULT_HOPS);
    }

    /**
     * Returns a copy with another prefix length of IPv6 addresses. A client usually has a network of 64 bits, and often
     * one of 56 or 48.
     *
     * @param bits the number of bits that identify a client, 32 to 128; the default is 64
     * @return the source
     * @throws IllegalArgumentException if it is out of that range
     */
    public ClientAddress ipv6Prefix(int bits) {
        checkRange("IPv6 prefix", bits, SHORTEST_PREFIX, IpAddress.V6_BITS, DEFAULT_PREFIX);
        return new ClientAddress(header, trusted, bits, maxHops);
    }

    /**
     * Returns a copy with another maximum number of header elements that are read, including that of the client.
     *
     * @param hops the number of elements, 1 to 64; the default is 16
     * @return the source
     * @throws IllegalArgumentException if it is out of that range
     */
    public ClientAddress maxHops(int hops) {
        checkRange("number of hops", hops, 1, MOST_HOPS, DEFAULT_HOPS);
        return new ClientAddress(header, trusted, ipv6Prefix, hops);
    }

    private static void checkRange(String what, int value, int least, int most, int example) {
        if (value < least || value > most) {
            throw new IllegalArgumentException(what + " " + value + " is out of range: expected " + least + " to "
                    + most + ", for example " + example);
        }
    }

    /**
     * Determines the client of a request.
     *
     * @param peer the address at the other end of the connection, as text and without a port; null if there is none
     * @param headers the values of all lines of a header with this name, in order, an empty list if there are none;
     *     called at most once, and only if the peer is trusted
     * @return the client; empty if the peer is not an IP address, as with a Unix domain socket
     */
    public Optional<String> resolve(@Nullable String peer, Function<String, List<String>> headers) {
        IpAddress address = peer == null ? null : IpAddress.parse(withoutZone(peer));
        if (address == null) {
            return Optional.empty();
        }
        if (header != null && isTrusted(address)) {
            address = clientBehind(address, header, headers.apply(header.headerName()));
        }
        return Optional.of(key(address));
    }

    private IpAddress clientBehind(IpAddress peer, ForwardingHeader header, List<String> lines) {
        int hops = 0;
        for (int i = lines.size() - 1; i >= 0; i--) {
            String line = lines.get(i);
            int end = line.length();
            while (end >= 0) {
                int start = header.startOfElement(line, end);
                // An empty element is skipped, but counts as a hop: it bounds the work for a million of them.
                if (start == ForwardingHeader.MALFORMED || ++hops > maxHops) {
                    return peer;
                }
                String element = withoutSpace(line, start, end);
                if (!element.isEmpty()) {
                    IpAddress address = header.address(element);
                    if (address == null) {
                        return peer;
                    }
                    if (!isTrusted(address)) {
                        return address;
                    }
                }
                end = start - 1;
            }
        }
        return peer;
    }

    /**
     * Returns whether no header is read.
     *
     * @return true for {@link #ofPeer()}
     */
    public boolean isPeer() {
        return header == null;
    }

    private boolean isTrusted(IpAddress address) {
        for (Network network : trusted) {
            if (network.contains(address)) {
                return true;
            }
        }
        return false;
    }

    private String key(IpAddress address) {
        IpAddress v4 = address.embeddedV4();
        if (v4 != null && !isTrusted(v4)) {
            return v4.toString();
        }
        if (address.bits() == IpAddress.V4_BITS || ipv6Prefix == IpAddress.V6_BITS) {
            return address.toString();
        }
        return address.cut(ipv6Prefix) + "/" + ipv6Prefix;
    }

    private static String withoutZone(String peer) {
        int zone = peer.indexOf('%');
        return zone < 0 ? peer : peer.substring(0, zone);
    }

    private static String withoutSpace(String line, int start, int end) {
        int from = start;
        int to = end;
        while (from < to && ForwardingHeader.isSpace(line.charAt(from))) {
            from++;
        }
        while (to > from && ForwardingHeader.isSpace(line.charAt(to - 1))) {
            to--;
        }
        return line.substring(from, to);
    }

    /** Returns the settings for log messages. */
    @Override
    public String toString() {
        String source = header == null ? "peer" : header.headerName() + " from " + trusted + ", maxHops=" + maxHops;
        return "ClientAddress[" + source + ", ipv6Prefix=" + ipv6Prefix + "]";
    }
}
