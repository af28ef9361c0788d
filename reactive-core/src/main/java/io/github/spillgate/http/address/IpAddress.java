package io.github.spillgate.http.address;

import io.github.spillgate.internal.syntax.HttpTokens;
import org.jspecify.annotations.Nullable;

/**
 * An IPv4 or IPv6 address. An IPv4-mapped IPv6 address becomes the IPv4 address, so that a host has one address.
 *
 * <p>The parser is our own, because that of the JDK treats invalid addresses as host names and looks them up, which
 * blocks. It also accepts {@code 010.1} as an address.
 *
 * @param bits 32 or 128
 * @param high the first 64 bits; those of an IPv4 address are its first 32
 * @param low the other 64 bits
 */
record IpAddress(int bits, long high, long low) {

    static final int V4_BITS = 32;
    static final int V6_BITS = 128;

    /** The number of bits before the IPv4 address in an IPv4-mapped one. */
    static final int MAPPED_BITS = V6_BITS - V4_BITS;

    private static final long NAT64 = 0x0064_ff9b_0000_0000L;
    private static final long TEREDO = 0x2001_0000L;
    private static final long SIX_TO_FOUR = 0x2002L;

    private static final int LONGEST_TEXT = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".length();
    private static final int GROUPS = 8;

    /** Parses an address; returns null if it is invalid, also with a port, a zone, brackets or space around it. */
    static @Nullable IpAddress parse(String text) {
        if (text.length() > LONGEST_TEXT) {
            return null;
        }
        if (text.indexOf(':') >= 0) {
            return parseV6(text);
        }
        long address = parseV4(text, 0);
        return address < 0 ? null : v4(address);
    }

    private static IpAddress v4(long address) {
        return new IpAddress(V4_BITS, address << 32, 0);
    }

    /** Parses four decimal numbers up to the end of the text. A leading zero could mean octal, so it is invalid. */
    private static long parseV4(String text, int from) {
        long address = 0;
        int i = from;
        for (int number = 0; number < 4; number++) {
            if (number > 0) {
                if (i == text.length() || text.charAt(i) != '.') {
                    return -1;
                }
                i++;
            }
            int start = i;
            int value = 0;
            while (i < text.length() && i - start < 3 && HttpTokens.isDigit(text.charAt(i))) {
                value = 10 * value + text.charAt(i) - '0';
                i++;
            }
            if (i == start || value > 255 || (i - start > 1 && text.charAt(start) == '0')) {
                return -1;
            }
            address = address << 8 | value;
        }
        return i == text.length() ? address : -1;
    }

    private static @Nullable IpAddress parseV6(String text) {
        int[] groups = new int[GROUPS];
        int count = 0;
        int gap = -1;
        int i = 0;
        if (text.startsWith("::")) {
            gap = 0;
            i = 2;
        }
        while (i < text.length()) {
            int start = i;
            int group = 0;
            while (i < text.length() && i - start < 4 && hex(text.charAt(i)) >= 0) {
                group = 16 * group + hex(text.charAt(i));
                i++;
            }
            if (i == start || count == GROUPS) {
                return null;
            }
            if (i < text.length() && text.charAt(i) == '.') {
                long v4 = count > GROUPS - 2 ? -1 : parseV4(text, start);
                if (v4 < 0) {
                    return null;
                }
                groups[count++] = (int) (v4 >> 16);
                groups[count++] = (int) (v4 & 0xffff);
                break;
            }
            groups[count++] = group;
            if (i < text.length()) {
                if (text.charAt(i) != ':' || i + 1 == text.length()) {
                    return null;
                }
                i++;
                if (text.charAt(i) == ':') {
                    if (gap >= 0) {
                        return null;
                    }
                    gap = count;
                    i++;
                }
            }
        }
        if (gap < 0 ? count < GROUPS : count == GROUPS) {
            return null;
        }
        return ofGroups(groups, count, gap < 0 ? count : gap);
    }

    /** Returns an address in which the groups from {@code gap} to {@code count} are the last ones. */
    private static IpAddress ofGroups(int[] groups, int count, int gap) {
        long high = 0;
        long low = 0;
        for (int i = 0; i < GROUPS; i++) {
            int fromEnd = GROUPS - i;
            int group = i < gap ? groups[i] : fromEnd <= count - gap ? groups[count - fromEnd] : 0;
            high = high << 16 | low >>> 48;
            low = low << 16 | group;
        }
        boolean mapped = high == 0 && low >>> 32 == 0xffff;
        return mapped ? v4(low & 0xffff_ffffL) : new IpAddress(V6_BITS, high, low);
    }

    /**
     * Returns the IPv4 address of the host or site that this IPv6 address belongs to, or null if it carries none.
     *
     * <p>Four forms: NAT64 with the well-known prefix {@code 64:ff9b::/96} (RFC 6052), 6to4 {@code 2002::/16} (RFC
     * 3056), Teredo {@code 2001::/32} (RFC 4380) and IPv4-compatible {@code ::/96} (RFC 4291). In each, the standard
     * fixes the whole prefix, and packets to the address go to the holder of that IPv4 address. So a client cannot
     * invent one and complete a handshake.
     *
     * <p>Not ISATAP: the owner of any IPv6 network can write that form. Not the local-use prefix {@code 64:ff9b:1::/48}
     * (RFC 8215) and prefixes of an operator: the position of the IPv4 address depends on a prefix length that the
     * address does not show.
     */
    @Nullable
    IpAddress embeddedV4() {
        if (bits == V4_BITS) {
            return null;
        }
        long address;
        if (high >>> 48 == SIX_TO_FOUR) {
            address = high >>> 16 & 0xffff_ffffL;
        } else if (high >>> 32 == TEREDO) {
            address = ~low & 0xffff_ffffL;
        } else if ((high == NAT64 || high == 0) && low >>> 32 == 0) {
            address = low;
        } else {
            return null;
        }
        // 0.0.0.0/8 holds no host. This leaves :: and ::1 as they are.
        return address >>> 24 == 0 ? null : v4(address);
    }

    /** Returns whether both addresses start with the same {@code prefix} bits. */
    boolean shares(int prefix, IpAddress other) {
        return bits == other.bits
                && ((high ^ other.high) & mask(prefix)) == 0
                && ((low ^ other.low) & mask(prefix - 64)) == 0;
    }

    /** Returns the first {@code prefix} bits of the address, followed by zeros. */
    IpAddress cut(int prefix) {
        return new IpAddress(bits, high & mask(prefix), low & mask(prefix - 64));
    }

    private static long mask(int ones) {
        return ones <= 0 ? 0 : ones >= 64 ? -1 : -1L << (64 - ones);
    }

    /** Does not use {@link Character#digit(char, int)}, which accepts the digits of every script. */
    private static int hex(char c) {
        if (HttpTokens.isDigit(c)) {
            return c - '0';
        }
        int letter = c | 0x20;
        return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
    }

    /** Returns the canonical text of the address (RFC 5952). */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(LONGEST_TEXT);
        if (bits == V4_BITS) {
            for (int shift = 56; shift >= 32; shift -= 8) {
                text.append(high >>> shift & 0xff).append(shift > 32 ? "." : "");
            }
            return text.toString();
        }
        int gap = longestGap();
        int gapLength = zerosFrom(gap);
        for (int i = 0; i < GROUPS; i++) {
            if (i == gap && gapLength > 1) {
                text.append("::");
                i += gapLength - 1;
                continue;
            }
            if (!text.isEmpty() && text.charAt(text.length() - 1) != ':') {
                text.append(':');
            }
            text.append(Integer.toHexString(group(i)));
        }
        return text.toString();
    }

    private int longestGap() {
        int longest = 0;
        for (int i = 1; i < GROUPS; i++) {
            if (zerosFrom(i) > zerosFrom(longest)) {
                longest = i;
            }
        }
        return longest;
    }

    private int zerosFrom(int group) {
        int end = group;
        while (end < GROUPS && group(end) == 0) {
            end++;
        }
        return end - group;
    }

    private int group(int i) {
        return (int) ((i < 4 ? high : low) >>> (48 - 16 * (i & 3))) & 0xffff;
    }
}
