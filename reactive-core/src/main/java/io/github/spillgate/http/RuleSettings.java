package io.github.spillgate.http;

import io.github.spillgate.Limit;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A rule as settings describe it, wherever those come from; {@link RuleReader} makes a rule of them. */
public interface RuleSettings {

    /**
     * Returns what it is called.
     *
     * @return such as {@code login}; null if that is not set
     */
    @Nullable
    String name();

    /**
     * Returns patterns of the paths that are meant.
     *
     * @return the patterns; empty for all paths
     */
    List<String> paths();

    /**
     * Returns patterns of the paths that are not meant, though {@link #paths} may be theirs.
     *
     * @return the patterns; empty for none
     */
    List<String> excludePaths();

    /**
     * Returns the methods that are meant.
     *
     * @return methods of the IANA HTTP method registry, in any case; empty for all
     */
    List<String> methods();

    /**
     * Returns who is charged.
     *
     * @return a key source as {@link KeySyntax} reads it
     */
    String key();

    /**
     * Returns its limits.
     *
     * @return the limits, which must all agree
     */
    List<Limit> limits();

    /**
     * Returns the name of what finds the limits of a key.
     *
     * @return the name of a {@link Rule.LimitSource}; null for none
     */
    @Nullable
    String limitsFrom();

    /**
     * Returns how many permits a request takes.
     *
     * @return 0 or more
     */
    long cost();

    /**
     * Returns the name of what finds the cost of a request.
     *
     * @return the name of a {@link Rule.CostSource}; null for none
     */
    @Nullable
    String costFrom();

    /**
     * Returns when it is decided.
     *
     * @return the phase; null for that which its key asks for
     */
    Rule.@Nullable Phase phase();

    /**
     * Returns what holds for a request without a key.
     *
     * @return what holds; null for the default of the key, as {@link Rule.Builder#whenMissing(Rule.WhenMissing)} describes it
     */
    Rule.@Nullable WhenMissing whenMissing();

    /**
     * Returns what holds where nothing can be decided.
     *
     * @return what holds
     */
    Rule.WhenUndecided whenUndecided();

    /**
     * Returns what holds if limits or a cost cannot be looked up.
     *
     * @return what holds
     */
    Rule.WhenLookupFails whenLookupFails();

    /**
     * Returns the statuses with which a request gives back what it has taken.
     *
     * @return such as {@code 2xx}; empty for none
     */
    List<String> refundWhen();

    /**
     * Returns the name of what excepts requests.
     *
     * @return the name of a {@code Predicate<Match>}; null for none
     */
    @Nullable
    String unless();

    /**
     * Returns whether it decides and reports only, and lets everybody pass.
     *
     * @return true if it is tried out only
     */
    boolean shadow();

    /**
     * Returns for how long key, limits and cost may be looked up.
     *
     * @return more than zero, and at most a minute
     */
    Duration timeout();
}
