package io.github.spillgate.http;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Finds the address of the client behind proxies, as a key to limit by.
 *
 * <pre>{@code
 * ClientAddress.ofPeer()                                           // no proxy, or none that is trusted
 * ClientAddress.ofXForwardedFor("10.0.0.0/8", "2001:db8:1::/48")   // proxies in these networks write X-Forwarded-For
 * ClientAddress.ofForwarded("192.0.2.7").ipv6Prefix(56)            // this one writes Forwarded, as in RFC 7239
 * }</pre>
 *
 * <h2>Whom it believes</h2>
 *
 * Anybody can write a header, so it believes only what trusted proxies have written. The peer is who holds the other end of
 * the connection. If the peer is not trusted, it is the client, and no header is looked at. If it is, the last element of the
 * header says from whom it has got the request; if that one is trusted too, the element before says from whom that one got it;
 * and so on. The first who is not trusted is the client. What stands left of it is not read, because the client may have written
 * it.
 *
 * <p>The peer is taken where the header does not tell:
 *
 * <ul>
 *   <li>it is missing, or an element on the way is malformed, hidden or {@code unknown}. Whoever shares the peer then shares a
 *       limit, and nobody has chosen his key;
 *   <li>more elements than {@link #maxHops(int)} would have to be read;
 *   <li>all in it are trusted. So a header never makes a trusted address the client, and nobody outside can use up the limit of
 *       somebody inside.
 * </ul>
 *
 * Whoever stands in a trusted network can write whatever address he likes, and is believed. So trust the addresses of the
 * proxies, and not a network in which clients are too. Only one kind of header is read: a proxy that appends to one passes the
 * other through as the client has sent it.
 *
 * <h2>What comes out</h2>
 *
 * An IPv4 address, such as {@code 192.0.2.1}. Of an IPv6 address only the prefix counts, because a client has a whole network
 * of them and could take another for each request: {@code 2001:db8:1:2::/64}. Each has one text only, for IPv6 that of RFC 5952.
 * An IPv4-mapped IPv6 address is the IPv4 address in it, wherever it stands. Ports do not count. The zone of a peer, as in
 * {@code fe80::1%eth0}, is dropped; in a header it is malformed, because it means something only on the machine that wrote it.
 *
 * <p>A client whose IPv6 address carries an IPv4 address is counted by the IPv4 address. This holds for NAT64 with the well-known
 * prefix {@code 64:ff9b::/96}, for 6to4 ({@code 2002::/16}), Teredo ({@code 2001::/32}) and {@code ::192.0.2.1}. It never makes an
 * address trusted: {@code 64:ff9b::10.0.0.1} is not in {@code 10.0.0.0/8}. If the IPv4 address is in a trusted network, the client
 * is counted by its IPv6 prefix instead, so that it cannot use up the limit of a proxy.
 *
 * <p>Nothing is ever looked up, and a header of any size costs no more than its last few elements. Immutable, and safe for use by
 * several threads.
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
     * The peer is the client, and no header is read.
     *
     * @return what finds it
     */
    public static ClientAddress ofPeer() {
        return new ClientAddress(null, List.of(), DEFAULT_PREFIX, DEFAULT_HOPS);
    }

    /**
     * The client stands in {@code X-Forwarded-For}, if proxies in these networks have written it.
     *
     * @param trusted networks, as in {@code 10.0.0.0/8} or {@code fd00::/8}, and single addresses; no names
     * @return what finds it
     * @throws IllegalArgumentException if there is none, or one of them cannot be read
     */
    public static ClientAddress ofXForwardedFor(String... trusted) {
        return of(ForwardingHeader.X_FORWARDED_FOR, trusted);
    }

    /**
     * The client stands in {@code Forwarded}, as RFC 7239 describes it, if proxies in these networks have written it.
     *
     * @param trusted as in {@link #ofXForwardedFor(String...)}
     * @return what finds it
     * @throws IllegalArgumentException if there is none, or one of them cannot be read
     */
    public static ClientAddress ofForwarded(String... trusted) {
        return of(ForwardingHeader.FORWARDED, trusted);
    }

    private static ClientAddress of(ForwardingHeader header, String... trusted) {
        Objects.requireNonNull(trusted, () -> "trusted networks are null: expected some, for example " + NETWORK);
        if (trusted.length == 0) {
            throw new IllegalArgumentException("no network is trusted, so " + header.headerName()
                    + " would never be read: expected one network at least, for example " + NETWORK
                    + ", or ClientAddress.ofPeer()");
        }
        return new ClientAddress(
                header, Arrays.stream(trusted).map(Network::parse).toList(), DEFAULT_PREFIX, DEFAULT_HOPS);
    }

    /**
     * The same with another prefix of IPv6 addresses. A client has 64 bits to itself as a rule, and often 56 or 48.
     *
     * @param bits how many bits count, 32 to 128; 64 unless set
     * @return what finds the client so
     * @throws IllegalArgumentException if it is out of that range
     */
    public ClientAddress ipv6Prefix(int bits) {
        checkRange("IPv6 prefix", bits, SHORTEST_PREFIX, IpAddress.V6_BITS, DEFAULT_PREFIX);
        return new ClientAddress(header, trusted, bits, maxHops);
    }

    /**
     * The same with another bound on the elements that are read, the client's included.
     *
     * @param hops how many, 1 to 64; 16 unless set
     * @return what finds the client so
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
     * Finds the client of a request.
     *
     * @param peer the address at the other end of the connection, as text and without a port; null if there is none
     * @param headers gives the values of all lines of the header with this name, in their order; an empty list if there
     *     are none. Asked once at most, and only if the peer is trusted
     * @return the client; empty if the peer is none or no IP address, as with a Unix domain socket
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
                // An element that is empty tells nothing; it counts, so that a million of them are not walked past.
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

    /** Returns whether no header is read. */
    boolean isPeer() {
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

    /** Returns the settings for a log. */
    @Override
    public String toString() {
        String source = header == null ? "peer" : header.headerName() + " from " + trusted + ", maxHops=" + maxHops;
        return "ClientAddress[" + source + ", ipv6Prefix=" + ipv6Prefix + "]";
    }
}
