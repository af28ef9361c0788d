package io.github.spillgate.http;

import io.github.spillgate.Limit;
import io.github.spillgate.http.PathSyntax.PathMatcher;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.syntax.PathForms;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** The rules of a service with their compiled paths. Immutable: to change one rule, the whole set is replaced. */
final class CompiledRules {

    private final List<CompiledRule> rules;
    private final Set<String> sharingOneCount;

    private CompiledRules(List<CompiledRule> rules, Set<String> sharingOneCount) {
        this.rules = rules;
        this.sharingOneCount = sharingOneCount;
    }

    /**
     * Compiles rules.
     *
     * @throws IllegalArgumentException if two rules or limits of two rules have the same name, or a path is invalid
     */
    static CompiledRules of(Collection<Rule> rules, PathSyntax syntax) {
        Checks.some(rules, "rules", "List.of()");
        Set<String> names = new HashSet<>();
        Map<String, Rule> limits = new HashMap<>();
        List<CompiledRule> compiled = new ArrayList<>(rules.size());
        for (Rule rule : rules) {
            if (!names.add(rule.name())) {
                throw new IllegalArgumentException("two rules are called " + rule.name()
                        + ": expected each to have a name of its own, for example " + rule.name() + "-2");
            }
            checkLimits(rule, limits);
            compiled.add(new CompiledRule(
                    rule, compile(rule, rule.paths(), syntax), compile(rule, rule.excludePaths(), syntax)));
        }
        Set<String> sharing = new TreeSet<>();
        for (Rule rule : rules) {
            if (rule.mayShareOneKey() && rule.excludePaths().isEmpty() && syntax.matchesEveryPath(rule.paths())) {
                sharing.add(rule.name());
            }
        }
        return new CompiledRules(List.copyOf(compiled), sharing);
    }

    /** Limits with the same name could share their counts, and would be one limit in header fields. */
    private static void checkLimits(Rule rule, Map<String, Rule> limits) {
        for (Limit limit : rule.limits()) {
            Rule other = limits.putIfAbsent(limit.name(), rule);
            if (other != null && other != rule) {
                throw new IllegalArgumentException("rules " + other.name() + " and " + rule.name()
                        + " both have a limit that is called " + limit.name()
                        + ": expected rules or limits of other names, for example " + rule.name() + "-2");
            }
        }
    }

    private static List<PathMatcher> compile(Rule rule, List<String> paths, PathSyntax syntax) {
        return paths.stream().map(path -> compile(rule, path, syntax)).toList();
    }

    private static PathMatcher compile(Rule rule, String path, PathSyntax syntax) {
        try {
            return syntax.compile(path);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("rule " + rule.name() + ": " + e.getMessage(), e);
        }
    }

    List<Rule> rules() {
        return rules.stream().map(CompiledRule::rule).toList();
    }

    Optional<Rule> named(String name) {
        return rules().stream().filter(rule -> rule.name().equals(name)).findFirst();
    }

    /** Returns the names of the rules under which all requests without a key share one count, on every path. */
    Set<String> sharingOneCount() {
        return sharingOneCount;
    }

    /**
     * Returns the rules of a phase that match a request. Allocates nothing if there are none.
     *
     * @param phase the phase; null for both
     */
    List<RuleMatch> match(Request request, @Nullable Phase phase) {
        List<RuleMatch> matches = List.of();
        PathForms forms = PathForms.of(request.path());
        // Without an iterator: this loop runs for each request, also for those that no rule matches.
        for (int i = 0; i < rules.size(); i++) {
            RuleMatch match = rules.get(i).match(request, forms, phase);
            if (match != null) {
                matches = matches.isEmpty() ? new ArrayList<>(rules.size()) : matches;
                matches.add(match);
            }
        }
        return matches;
    }

    /** A rule with its compiled paths. */
    private record CompiledRule(Rule rule, List<PathMatcher> paths, List<PathMatcher> excluded) {

        @Nullable
        RuleMatch match(Request request, PathForms forms, @Nullable Phase phase) {
            if ((phase != null && rule.phase() != phase) || !rule.appliesTo(request.method())) {
                return null;
            }
            Map<String, String> variables = paths.isEmpty() ? request.pathVariables() : match(paths, request, forms);
            return variables == null || isExcluded(request, forms) ? null : new RuleMatch(rule, request, variables);
        }

        /** Returns the variables of the form that is decoded most often: another spelling must not be another key. */
        private static @Nullable Map<String, String> match(
                List<PathMatcher> patterns, Request request, PathForms forms) {
            if (forms.isAnyPath()) {
                return Map.of();
            }
            for (int i = 0; i < forms.others().size(); i++) {
                Map<String, String> variables =
                        match(patterns, request, forms.others().get(i));
                if (variables != null) {
                    return variables;
                }
            }
            return match(patterns, request, (String) null);
        }

        private boolean isExcluded(Request request, PathForms forms) {
            if (excluded.isEmpty() || forms.isAnyPath() || match(excluded, request, (String) null) == null) {
                return false;
            }
            for (String form : forms.others()) {
                if (match(excluded, request, form) == null) {
                    return false;
                }
            }
            return true;
        }

        /**
         * Returns the variables of the first pattern that matches a form of the path; null if none does.
         *
         * @param form the form; null for the path itself
         */
        private static @Nullable Map<String, String> match(
                List<PathMatcher> patterns, Request request, @Nullable String form) {
            for (int i = 0; i < patterns.size(); i++) {
                PathMatcher pattern = patterns.get(i);
                Map<String, String> variables = form == null ? pattern.match(request) : pattern.match(form);
                if (variables == null && form != null) {
                    // A file may be read with a slash behind its name, and a directory without one.
                    variables = pattern.match(form + "/");
                }
                if (variables != null) {
                    return variables;
                }
            }
            return null;
        }
    }
}
