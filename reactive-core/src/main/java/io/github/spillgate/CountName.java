package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The identity of a count in its parts: equal to another where the texts are equal, for each text has only one way to
 * be made. A store in this process needs no more than this, and so for its decisions no text is written out, hashed and
 * compared.
 *
 * <p>It is kept for as long as the count is; what is long in a key does not get here. And it can be compared, so that a
 * hash map holds up under keys that were chosen to have the same hash.
 */
final class CountName implements Comparable<CountName> {

    private final Prefix prefix;
    private final String key;
    private final @Nullable String group;
    private final int hash;
    private @Nullable String text; // written at most a few times, always the same

    /** A name of parts that are encoded. */
    CountName(Prefix prefix, String key, @Nullable String group) {
        this.prefix = prefix;
        this.key = key;
        this.group = group;
        int named = 31 * prefix.text.hashCode() + key.hashCode();
        this.hash = group == null ? named : 31 * named + group.hashCode();
    }

    Limit limit() {
        return prefix.limit;
    }

    /** Returns the identity. */
    String text() {
        String written = text;
        if (written == null) {
            // In one go, because it is made for nearly every decision.
            written = group == null ? prefix.opening + key + "}" : prefix.opening + group + "}" + key;
            text = written;
        }
        return written;
    }

    /** The part of the identity that tells one key from another, with the hash tag of Redis Cluster in braces. */
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

    @Override
    public int compareTo(CountName other) {
        return text().compareTo(other.text());
    }

    @Override
    public String toString() {
        return text();
    }

    /** What all identities under one limit of one limiter begin with. */
    static final class Prefix {

        private final Limit limit;
        private final String text;
        private final String opening;

        Prefix(String limiter, Limit limit) {
            this.limit = limit;
            this.text = limiter + ":" + limit.identity() + ":";
            this.opening = text + "{";
        }
    }
}
