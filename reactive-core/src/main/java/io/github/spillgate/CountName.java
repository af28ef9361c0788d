package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The identity of a count, in parts. Two names are equal if and only if their texts are equal, because each text can be
 * split into parts in one way only. A store in this process compares the parts, so it does not need to build and hash
 * the text for each decision.
 *
 * <p>A store keeps the name as long as the count. Its length is bounded, because long keys are digested. Names are
 * comparable, so that a hash map remains fast if a client chooses keys with equal hash codes.
 */
final class CountName implements Comparable<CountName> {

    private final Prefix prefix;
    private final String key;
    private final @Nullable String group;
    private final int hash;
    private @Nullable String text; // computed on demand; a race only computes it twice

    /** Creates a name of encoded parts. */
    CountName(Prefix prefix, String key, @Nullable String group) {
        this.prefix = prefix;
        this.key = key;
        this.group = group;
        int named = 31 * prefix.text.hashCode() + key.hashCode();
        this.hash = group == null ? named : 31 * named + group.hashCode();
    }

    /** Returns the name of a count of the same key under another limit. */
    CountName under(Prefix other) {
        return new CountName(other, key, group);
    }

    Limit limit() {
        return prefix.limit;
    }

    String limiter() {
        return prefix.limiter;
    }

    /** Returns the identity. */
    String text() {
        String written = text;
        if (written == null) {
            // A single concatenation, because nearly every decision on Redis needs it.
            written = group == null ? prefix.opening + key + "}" : prefix.opening + group + "}" + key;
            text = written;
        }
        return written;
    }

    /** Returns the part of the identity for a key, with the hash tag of Redis Cluster in braces. */
    static String keyText(String key, @Nullable String group) {
        return group == null ? "{" + key + "}" : "{" + group + "}" + key;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return this == other
                || (other instanceof CountName name
                        && hash == name.hash
                        && key.equals(name.key)
                        && prefix.text.equals(name.prefix.text)
                        && (group == null ? name.group == null : group.equals(name.group)));
    }

    @Override
    public int hashCode() {
        return hash;
    }

    /** {@inheritDoc} The order has no meaning. Without equal hash codes, it does not need the texts. */
    @Override
    public int compareTo(CountName other) {
        return hash == other.hash ? text().compareTo(other.text()) : Integer.compare(hash, other.hash);
    }

    @Override
    public String toString() {
        return text();
    }

    /** The common prefix of all identities for one limit of one limiter. */
    static final class Prefix {

        private final String limiter;
        private final Limit limit;
        private final String text;
        private final String opening;

        Prefix(String limiter, Limit limit) {
            this.limiter = limiter;
            this.limit = limit;
            this.text = limiter + ":" + limit.identity() + ":";
            this.opening = text + "{";
        }

        boolean isOf(String limiter) {
            return this.limiter.equals(limiter);
        }
    }
}
