package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.KeySyntax;
import io.github.spillgate.http.Match;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.RuleProperties;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.BeansException;
import org.springframework.beans.factory.ListableBeanFactory;

/** Makes rules of settings, and says of each setting that is wrong which one it is. */
final class RuleReader {

    private final KeySyntax keys;
    private final PathSyntax paths;
    private final ListableBeanFactory beans;

    RuleReader(KeySyntax keys, PathSyntax paths, ListableBeanFactory beans) {
        this.keys = keys;
        this.paths = paths;
        this.beans = beans;
    }

    List<Rule> read(List<RuleProperties> settings) {
        List<Rule> rules = new ArrayList<>(settings.size());
        Set<String> names = new HashSet<>();
        for (int i = 0; i < settings.size(); i++) {
            RuleProperties one = settings.get(i);
            String property = "spillgate.rules[" + i + "]";
            rules.add(read(property, one));
            if (!names.add(rules.get(i).name())) {
                throw new WrongSettingException(
                        property + ".name",
                        one.name(),
                        "another rule is called so too: expected each to have a name of its own, for example "
                                + one.name() + "-2",
                        null);
            }
        }
        return rules;
    }

    private Rule read(String property, RuleProperties settings) {
        String name = settings.name();
        if (name == null) {
            throw new WrongSettingException(
                    property + ".name", null, "the rule has no name: expected one, for example login", null);
        }
        Rule.Builder rule = checked(property + ".name", name, () -> Rule.named(name));
        for (int i = 0; i < settings.paths().size(); i++) {
            String path = settings.paths().get(i);
            checked(property + ".paths[" + i + "]", path, () -> paths.compile(path));
            rule.paths(path);
        }
        checked(
                property + ".methods",
                settings.methods(),
                () -> rule.methods(settings.methods().toArray(String[]::new)));
        checked(property + ".key", settings.key(), () -> rule.key(keys.parse(settings.key())));
        settings.limits().forEach(rule::limit);
        if (settings.limitsFrom() != null) {
            rule.limits(bean(property + ".limits-from", settings.limitsFrom(), Rule.LimitSource.class));
        }
        checked(property + ".cost", settings.cost(), () -> rule.cost(settings.cost()));
        if (settings.costFrom() != null) {
            rule.cost(bean(property + ".cost-from", settings.costFrom(), Rule.CostSource.class));
        }
        if (settings.phase() != null) {
            rule.phase(settings.phase());
        }
        if (settings.unless() != null) {
            rule.unless(condition(property + ".unless", settings.unless()));
        }
        checked(
                property + ".refund-when",
                settings.refundWhen(),
                () -> rule.refundWhen(settings.refundWhen().toArray(String[]::new)));
        checked(property + ".timeout", settings.timeout(), () -> rule.timeout(settings.timeout()));
        rule.whenMissing(settings.whenMissing())
                .whenUndecided(settings.whenUndecided())
                .shadow(settings.shadow());
        String suspect = settings.phase() == null ? property + ".limits" : property + ".phase";
        return checked(suspect, settings.phase() == null ? settings.limits() : settings.phase(), rule::build);
    }

    @SuppressWarnings(
            "unchecked") // what a condition is about is not known at run time; it says so itself, if it is wrong
    private Predicate<? super Match> condition(String property, String name) {
        return bean(property, name, Predicate.class);
    }

    private <T> T bean(String property, String name, Class<T> type) {
        try {
            return beans.getBean(name, type);
        } catch (BeansException e) {
            throw new WrongSettingException(
                    property,
                    name,
                    "there is no such bean of type " + type.getName() + ": expected the name of one" + known(type),
                    e);
        }
    }

    private String known(Class<?> type) {
        String[] names = beans.getBeanNamesForType(type);
        return names.length == 0 ? ", and there is none" : ", for example " + names[0];
    }

    private static <T> T checked(String property, @Nullable Object value, Supplier<T> read) {
        try {
            return read.get();
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new WrongSettingException(property, value, String.valueOf(e.getMessage()), e);
        }
    }

    /** Reads one setting that is not of a rule. */
    static <S, T> T checked(String property, S value, Function<S, T> read) {
        return checked(property, value, () -> read.apply(value));
    }
}
