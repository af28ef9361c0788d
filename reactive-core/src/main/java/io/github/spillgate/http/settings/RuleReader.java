package io.github.spillgate.http.settings;

import static io.github.spillgate.http.settings.WrongSettingException.checked;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleMatch;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;

/** Creates rules from settings. Its errors name the setting that is wrong. */
public final class RuleReader {

    private final KeySyntax keys;
    private final PathSyntax paths;
    private final BeanLookup beans;
    private final Function<? super RuleSettings, ? extends Predicate<? super RuleMatch>> exempted;

    private RuleReader(
            KeySyntax keys,
            PathSyntax paths,
            BeanLookup beans,
            Function<? super RuleSettings, ? extends Predicate<? super RuleMatch>> exempted) {
        this.keys = keys;
        this.paths = paths;
        this.beans = beans;
        this.exempted = exempted;
    }

    /**
     * Returns a reader.
     *
     * @param keys the syntax of key sources
     * @param paths the syntax of paths
     * @param beans the lookup of objects that settings refer to by name
     * @return the reader
     */
    public static RuleReader of(KeySyntax keys, PathSyntax paths, BeanLookup beans) {
        return new RuleReader(keys, paths, beans, rule -> match -> false);
    }

    /**
     * Returns a copy of this reader; its rules exempt additional requests, besides those of their own settings.
     *
     * @param exempted the condition that exempts requests, for each rule; must not block
     * @return the reader
     */
    public RuleReader unless(Function<? super RuleSettings, ? extends Predicate<? super RuleMatch>> exempted) {
        return new RuleReader(keys, paths, beans, exempted);
    }

    /**
     * Reads rules.
     *
     * @param where the location of the settings, such as {@code spillgate.rules}
     * @param settings the rules, in order
     * @return the rules
     * @throws WrongSettingException if one of them is invalid, or two have the same name
     */
    public List<Rule> read(String where, List<? extends RuleSettings> settings) {
        List<Rule> rules = new ArrayList<>(settings.size());
        Set<String> names = new HashSet<>();
        for (int i = 0; i < settings.size(); i++) {
            RuleSettings one = settings.get(i);
            String setting = where + "[" + i + "]";
            try {
                rules.add(read(setting, one));
            } catch (WrongSettingException e) {
                throw e.inRule(one.name());
            }
            if (!names.add(rules.get(i).name())) {
                throw new WrongSettingException(
                        setting + ".name",
                        one.name(),
                        "another rule has this name: expected a unique name for each, for example " + one.name() + "-2",
                        null);
            }
        }
        return rules;
    }

    private Rule read(String setting, RuleSettings settings) {
        String name = settings.name();
        if (name == null) {
            throw new WrongSettingException(
                    setting + ".name", null, "the rule has no name: expected one, for example login", null);
        }
        Rule.Builder rule = checked(setting + ".name", name, Rule::named);
        rule.paths(checkedPaths(setting + ".paths", settings.paths()));
        rule.excludePaths(checkedPaths(setting + ".exclude-paths", settings.excludePaths()));
        checked(setting + ".methods", settings.methods(), methods -> {
            methods.forEach(RegisteredMethods::check);
            return rule.methods(methods.toArray(String[]::new));
        });
        KeySource key = checked(setting + ".key", settings.key(), keys::parse);
        rule.key(key);
        checkLimits(setting + ".limits", settings);
        settings.limits().forEach(rule::limit);
        Rule known = checked(setting + ".limits", settings.limits(), any -> rule.build());
        known.pathVariables()
                .forEach(variable -> checked(setting + ".key", settings.key(), any -> {
                    paths.checkVariable(settings.paths(), variable);
                    return any;
                }));
        String limitsFrom = settings.limitsFrom();
        if (limitsFrom != null) {
            rule.limits(named(setting + ".limits-from", limitsFrom, Rule.LimitSource.class));
        }
        String costFrom = settings.costFrom();
        if (costFrom != null) {
            rule.cost(named(setting + ".cost-from", costFrom, Rule.CostSource.class));
        }
        rule.texts(settings.key(), limitsFrom, costFrom);
        checked(setting + ".cost", settings.cost(), cost -> rule.cost(cost).build());
        Rule.Phase phase = settings.phase();
        if (phase == Rule.Phase.BEFORE_AUTHENTICATION && known.needsPrincipal()) {
            throw new WrongSettingException(
                    setting + ".phase",
                    phase,
                    "key " + key + " is not known before authentication: expected after-authentication, or another key",
                    null);
        }
        if (phase != null) {
            rule.phase(phase);
        }
        String unless = settings.unless();
        Predicate<? super RuleMatch> additional = exempted.apply(settings);
        if (unless == null) {
            rule.unless(additional);
        } else {
            Predicate<? super RuleMatch> own = condition(setting + ".unless", unless);
            rule.unless(match -> own.test(match) || additional.test(match));
        }
        checked(
                setting + ".refund-when",
                settings.refundWhen(),
                statuses -> rule.refundWhen(statuses.toArray(String[]::new)));
        checked(setting + ".timeout", settings.timeout(), rule::timeout);
        Rule.WhenMissing whenMissing = settings.whenMissing();
        if (whenMissing != null) {
            rule.whenMissing(whenMissing);
        }
        rule.whenAmbiguous(settings.whenAmbiguous())
                .whenUndecided(settings.whenUndecided())
                .whenLookupFails(settings.whenLookupFails())
                .shadow(settings.shadow());
        return rule.build();
    }

    private String[] checkedPaths(String setting, List<String> patterns) {
        for (int i = 0; i < patterns.size(); i++) {
            checked(setting + "[" + i + "]", patterns.get(i), paths::compile);
        }
        return patterns.toArray(String[]::new);
    }

    /** {@link Rule.Builder#build()} checks the same, but its messages are for Java code. */
    private static void checkLimits(String setting, RuleSettings rule) {
        if (rule.limits().isEmpty()) {
            throw new WrongSettingException(
                    setting,
                    null,
                    "the rule has no limit"
                            + (rule.limitsFrom() == null ? "" : " for keys that the lookup does not find")
                            + ": expected one or more, for example 120/1m",
                    null);
        }
        Map<String, Limit> names = new HashMap<>();
        for (Limit limit : rule.limits()) {
            Limit other = names.putIfAbsent(limit.name(), limit);
            if (other != null && !areApart(other, limit)) {
                throw new WrongSettingException(
                        setting,
                        rule.limits(),
                        "limits " + other + " and " + limit + " share their count, " + limit.name()
                                + ": expected another name for one of them, for example " + limit.named("burst"),
                        null);
            }
        }
    }

    /** Returns whether a charge keeps these limits apart, in two counts. */
    private static boolean areApart(Limit one, Limit other) {
        try {
            return Charge.of("any", List.of(one, other)).limits().size() == 2;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    // The type argument is not known at run time. A condition of another type fails on use.
    @SuppressWarnings("unchecked")
    private Predicate<? super RuleMatch> condition(String setting, String name) {
        return named(setting, name, Predicate.class);
    }

    private <T> T named(String setting, String name, Class<T> type) {
        return checked(setting, name, any -> beans.get(any, type));
    }

    /** A lookup of the objects that settings refer to by name. */
    public interface BeanLookup {

        /**
         * Returns an object by its name.
         *
         * @param name the name
         * @param type the expected type
         * @param <T> the expected type
         * @return the object of that name
         * @throws IllegalArgumentException if there is no such object, or it has another type; the message says what
         *     was expected
         */
        <T> T get(String name, Class<T> type);
    }
}
