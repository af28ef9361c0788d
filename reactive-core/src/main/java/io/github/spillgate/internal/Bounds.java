package io.github.spillgate.internal;

/** Bounds that several packages need to know. */
public final class Bounds {

    /** The most claims in one decision; one script reads and writes a key for each. */
    public static final int MOST_CLAIMS = 16;

    /** The highest count: scripts count in doubles, which hold all integers up to this one. */
    public static final long MOST_EXACT = (1L << 53) - 1;

    private Bounds() {}
}
