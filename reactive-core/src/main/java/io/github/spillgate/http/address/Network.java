package io.github.spillgate.http.address;

import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.HttpTokens;

/**
 * A network: the addresses that start with the same bits.
 *
 * @param first the address with zeros after these bits
 * @param prefix the number of bits
 */
record Network(IpAddress first, int prefix) {

    private static final String EXAMPLE = "\"10.0.0.0/8\", \"192.0.2.7\" or \"fd00::/8\"";

    /**
     * Parses a network or a single address. An IPv4-mapped network contains IPv4 addresses.
     *
     * @throws IllegalArgumentException if it is invalid
     */
    static Network parse(String text) {
        Checks.present(text, "trusted network", EXAMPLE);
        int slash = text.indexOf('/');
        String host = slash < 0 ? text : text.substring(0, slash);
        IpAddress address = IpAddress.parse(host);
        if (address == null) {
            throw refused(
                    text,
                    "is none",
                    "an IPv4 or IPv6 address, and the number of bits that count unless it is a single one"
                            + " (names are not looked up)",
                    EXAMPLE);
        }
        boolean mapped = address.bits() == IpAddress.V4_BITS && host.indexOf(':') >= 0;
        int skipped = mapped ? IpAddress.MAPPED_BITS : 0;
        int most = address.bits() + skipped;
        int prefix = (slash < 0 ? most : number(text, slash + 1)) - skipped;
        if (prefix < 1 || prefix > address.bits()) {
            // With 0 bits it would contain all clients, and no address would be that of a client.
            throw refused(
                    text,
                    "has no such prefix",
                    "from " + (skipped + 1) + " to " + most + " bits after the slash",
                    "\"" + host + "/" + most + "\"");
        }
        IpAddress first = address.cut(prefix);
        if (!first.equals(address)) {
            throw refused(
                    text,
                    "has bits after its prefix",
                    "either the network or the address",
                    "\"" + first + "/" + prefix + "\" or \"" + address + "\"");
        }
        return new Network(first, prefix);
    }

    private static IllegalArgumentException refused(String text, String what, String expected, String example) {
        return new IllegalArgumentException("trusted network " + Text.quote(text) + " " + what + ": expected "
                + expected + ", for example " + example);
    }

    /** Returns the number at the end of the text; -1 if there is none. */
    private static int number(String text, int from) {
        int digits = text.length() - from;
        if (digits < 1 || digits > 3 || (digits > 1 && text.charAt(from) == '0')) {
            return -1;
        }
        int number = 0;
        for (int i = from; i < text.length(); i++) {
            if (!HttpTokens.isDigit(text.charAt(i))) {
                return -1;
            }
            number = 10 * number + text.charAt(i) - '0';
        }
        return number;
    }

    boolean contains(IpAddress address) {
        return first.shares(prefix, address);
    }

    @Override
    public String toString() {
        return first + "/" + prefix;
    }
}
