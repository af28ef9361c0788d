package io.github.spillgate.http.settings;

import static io.github.spillgate.http.settings.WrongSettingException.checked;

import io.github.spillgate.http.address.ClientAddress;
import java.util.List;

/** How the address of a client is determined, as described by settings, independent of their format. */
public interface ClientAddressSettings {

    /** The header that contains the address of the client behind proxies. */
    enum Header {
        /** None: the peer is the client. */
        NONE,

        /** {@code X-Forwarded-For}. */
        X_FORWARDED_FOR,

        /** {@code Forwarded}, as in RFC 7239. */
        FORWARDED
    }

    /**
     * Returns the header that is read if trusted proxies have written it.
     *
     * @return the header
     */
    Header header();

    /**
     * Returns the addresses and networks of the trusted proxies.
     *
     * @return the proxies; at least one if a header is read, else none
     */
    List<String> trustedProxies();

    /**
     * Returns the number of bits of an IPv6 address that identify a client.
     *
     * @return as for {@link ClientAddress#ipv6Prefix(int)}
     */
    int ipv6Prefix();

    /**
     * Returns the maximum number of elements of the header that are read.
     *
     * @return as for {@link ClientAddress#maxHops(int)}
     */
    int maxHops();

    /**
     * Creates the source of the address.
     *
     * @param where the location of the settings, such as {@code spillgate.client-address}
     * @return the source
     * @throws WrongSettingException if one of the settings is invalid
     */
    default ClientAddress read(String where) {
        String[] trusted = trustedProxies().toArray(String[]::new);
        if (header() == Header.NONE && trusted.length > 0) {
            throw new WrongSettingException(
                    where + ".header",
                    "none",
                    "proxies " + trustedProxies() + " are trusted, but no header of theirs is read: expected"
                            + " x-forwarded-for or forwarded, the one that your proxies write",
                    null);
        }
        ClientAddress address = checked(where + ".trusted-proxies", trustedProxies(), any -> switch (header()) {
            case NONE -> ClientAddress.ofPeer();
            case X_FORWARDED_FOR -> ClientAddress.ofXForwardedFor(trusted);
            case FORWARDED -> ClientAddress.ofForwarded(trusted);
        });
        ClientAddress cut = checked(where + ".ipv6-prefix", ipv6Prefix(), address::ipv6Prefix);
        return checked(where + ".max-hops", maxHops(), cut::maxHops);
    }
}
