package io.github.spillgate.http.settings;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A rule as described by settings, independent of their format. {@link RuleReader} creates a {@link Rule} from it. */
public interface RuleSettings {

    /**
     * Returns the name.
     *
     * @return a name such as {@code login}; null if not set
     */
    @Nullable
    String name();

    /**
     * Returns the patterns of the paths that the rule applies to.
     *
     * @return the patterns; empty for all paths
     */
    List<String> paths();

    /**
     * Returns the patterns of the paths that the rule does not apply to, even if {@link #paths} match them.
     *
     * @return the patterns; empty for none
     */
    List<String> excludePaths();

    /**
     * Returns the methods that the rule applies to.
     *
     * @return methods of the IANA HTTP method registry, in any case; empty for all
     */
    List<String> methods();

    /**
     * Returns the key that is charged.
     *
     * @return a key source in the format of {@link KeySyntax}
     */
    String key();

    /**
     * Returns the limits.
     *
     * @return the limits, all of which must allow a request
     */
    List<Limit> limits();

    /**
     * Returns the name of the lookup of a key's limits.
     *
     * @return the name of a {@link Rule.LimitSource}; null for none
     */
    @Nullable
    String limitsFrom();

    /**
     * Returns the number of permits that a request takes.
     *
     * @return 0 or more
     */
    long cost();

    /**
     * Returns the name of the lookup of a request's cost.
     *
     * @return the name of a {@link Rule.CostSource}; null for none
     */
    @Nullable
    String costFrom();

    /**
     * Returns when the rule is decided.
     *
     * @return the phase; null for the default of the key, as in {@link Rule.Builder#phase(Rule.Phase)}
     */
    Rule.@Nullable Phase phase();

    /**
     * Returns the handling of requests without a key.
     *
     * @return the handling; null for the default of the key, as in {@link Rule.Builder#whenMissing(Rule.WhenMissing)}
     */
    Rule.@Nullable WhenMissing whenMissing();

    /**
     * Returns the handling of requests with several different values where the key has one.
     *
     * @return the handling
     */
    Rule.WhenAmbiguous whenAmbiguous();

    /**
     * Returns the handling of requests on which no decision is possible.
     *
     * @return the handling
     */
    Rule.WhenUndecided whenUndecided();

    /**
     * Returns the handling of requests if the lookup of their limits or cost fails.
     *
     * @return the handling
     */
    Rule.WhenLookupFails whenLookupFails();

    /**
     * Returns the response statuses for which the permits of a request are refunded.
     *
     * @return statuses such as {@code 2xx}; empty for none
     */
    List<String> refundWhen();

    /**
     * Returns the name of the condition that exempts requests.
     *
     * @return the name of a {@code Predicate<RuleMatch>}; null for none
     */
    @Nullable
    String unless();

    /**
     * Returns whether the rule only decides and reports, and denies no request.
     *
     * @return true for a shadow rule
     */
    boolean shadow();

    /**
     * Returns the timeout of the lookups of key, limits and cost.
     *
     * @return more than zero, and at most a minute
     */
    Duration timeout();
}
