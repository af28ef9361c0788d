package io.github.spillgate;

import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Keys;
import io.github.spillgate.internal.Text;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A request for permits: a key, a cost, and the limits that apply. A charge without limits falls under the limits of
 * the {@link RateLimiter} that decides on it.
 *
 * <p>The charges of one call are decided atomically: all are taken, or none.
 *
 * <pre>{@code
 * limiter.tryAcquire(
 *         Charge.of("ip:" + address, Limit.perMinute(120)),
 *         Charge.of("key:" + apiKey, plan.limits()).permits(3));
 * }</pre>
 */
public final class Charge {

    private static final String LIMIT = "Limit.perMinute(120)";

    private final String key;
    private final List<Limit> limits;
    private final long permits;
    private final @Nullable String group;

    private Charge(String key, List<Limit> limits, long permits, @Nullable String group) {
        this.key = key;
        this.limits = limits;
        this.permits = permits;
        this.group = group;
    }

    /** Returns a charge of one permit for the key, under the limits of the limiter. */
    static Charge one(String key) {
        return new Charge(checkKey("key", key, "\"user:42\""), List.of(), 1, null);
    }

    /**
     * Returns a charge of several permits for the key, under the limits of the limiter.
     *
     * @param key the key that is charged, any non-empty string; may be untrusted
     * @param permits the cost, as in {@link #permits(long)}
     * @return the charge
     * @throws IllegalArgumentException if the key is empty or the cost is negative
     */
    public static Charge of(String key, long permits) {
        return one(key).permits(permits);
    }

    /**
     * Returns a charge of one permit for the key.
     *
     * @param key the key that is charged, any non-empty string; may be untrusted
     * @param limits the limits that apply; none for those of the limiter
     * @return the charge
     * @throws IllegalArgumentException if the key is empty or two of the limits would share a count
     */
    public static Charge of(String key, Limit... limits) {
        return of(key, Arrays.asList(Checks.some(limits, "limits", LIMIT)));
    }

    /**
     * Returns a charge of one permit for the key.
     *
     * @param key the key that is charged, any non-empty string; may be untrusted
     * @param limits the limits that apply; none for those of the limiter
     * @return the charge
     * @throws IllegalArgumentException if the key is empty or two of the limits would share a count
     */
    public static Charge of(String key, Collection<Limit> limits) {
        return new Charge(checkKey("key", key, "\"user:42\""), distinct(limits), 1, null);
    }

    /**
     * Returns the same charge with another cost.
     *
     * @param permits the cost; 0 checks whether the key is within its limits and takes nothing
     * @return the charge
     * @throws IllegalArgumentException if the cost is negative
     */
    public Charge permits(long permits) {
        return new Charge(key, limits, Checks.permits(permits), group);
    }

    /**
     * Returns the same charge with its key in a group. In Redis Cluster all keys of a group are in one hash slot, so
     * charges to several of them are decided atomically. The group is part of the identity.
     *
     * @param group the group, any non-empty string, for example {@code tenant-7}
     * @return the charge
     * @throws IllegalArgumentException if the group is empty
     */
    public Charge group(String group) {
        return new Charge(key, limits, permits, checkKey("group", group, "\"tenant-7\""));
    }

    /**
     * Returns the key that is charged.
     *
     * @return the key as the caller passed it
     */
    public String key() {
        return key;
    }

    /**
     * Returns the limits that apply.
     *
     * @return the limits; empty for those of the limiter
     */
    public List<Limit> limits() {
        return limits;
    }

    /**
     * Returns the cost.
     *
     * @return the number of permits, never negative
     */
    public long permits() {
        return permits;
    }

    /**
     * Returns the group of the key. In Redis Cluster all keys of a group are in one hash slot.
     *
     * @return the group, if there is one
     */
    public Optional<String> group() {
        return Optional.ofNullable(group);
    }

    /** Returns the same charge with these limits. */
    Charge withLimits(List<Limit> others) {
        return new Charge(key, others, permits, group);
    }

    String encodedKey() {
        return Keys.encode(key);
    }

    @Nullable
    String encodedGroup() {
        return group == null ? null : Keys.encode(group);
    }

    /** Returns the limits as a list; throws if two would share a count. */
    static List<Limit> distinct(Collection<Limit> limits) {
        List<Limit> list = Checks.allPresent(limits, "limits", LIMIT);
        if (list.size() < 2) {
            return list;
        }
        Set<String> identities = new HashSet<>();
        for (Limit limit : list) {
            if (!identities.add(limit.identity())) {
                throw new IllegalArgumentException("limit " + Text.quote(limit.toString())
                        + " would share its count with another of the same name and window: expected every limit to be"
                        + " its own, for example with .named(\"burst\")");
            }
        }
        if (list.size() > Bounds.MOST_CLAIMS) {
            throw new IllegalArgumentException(list.size() + " limits on one key are too many: expected at most "
                    + Bounds.MOST_CLAIMS + ", for example Limit.perSecond(10) and Limit.perDay(10_000)");
        }
        return list;
    }

    private static String checkKey(String what, String key, String example) {
        if (Checks.present(key, what, example).isEmpty()) {
            throw new IllegalArgumentException(
                    what + " \"\" is empty: expected at least one character, for example " + example);
        }
        return key;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Charge charge
                && permits == charge.permits
                && key.equals(charge.key)
                && limits.equals(charge.limits)
                && Objects.equals(group, charge.group);
    }

    @Override
    public int hashCode() {
        return Objects.hash(key, limits, permits, group);
    }

    /** Returns the charge for log messages, with the key encoded. */
    @Override
    public String toString() {
        return "Charge[" + CountName.keyText(encodedKey(), encodedGroup()) + ", permits=" + permits + ", limits="
                + limits + "]";
    }
}
