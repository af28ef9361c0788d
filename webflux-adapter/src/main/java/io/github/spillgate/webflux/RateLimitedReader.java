package io.github.spillgate.webflux;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.settings.KeySyntax;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ClassUtils;

/** Reads rules from {@link RateLimited} annotations. Thread-safe. */
final class RateLimitedReader {

    /** The maximum length of a default name; the name of a limit is appended to it. */
    private static final int LONGEST_NAME = 56;

    private final KeySyntax keys;

    /** The rules of each class, which its methods share. */
    private final Map<Class<?>, List<Rule>> rulesOfTypes = new ConcurrentHashMap<>();

    /** The default names of rules, and the class or method that each belongs to. */
    private final Map<String, String> names = new ConcurrentHashMap<>();

    RateLimitedReader(KeySyntax keys) {
        this.keys = keys;
    }

    /**
     * Reads the annotations of a class and of one of its methods.
     *
     * @return the rules of the class, and then those of the method
     * @throws IllegalArgumentException if a limit or a key cannot be read, or if two rules would have the same default
     *     name
     */
    List<Rule> read(Class<?> type, Method method) {
        String name = ClassUtils.getShortName(type);
        List<Rule> rules =
                new ArrayList<>(rulesOfTypes.computeIfAbsent(type, key -> rulesOn(key, name, key.getName())));
        rules.addAll(rulesOn(method, name + "." + method.getName(), type.getName() + "." + method.getName()));
        return rules;
    }

    /** Reads the annotations on the element itself or, if it has none, those of the elements it overrides. */
    private List<Rule> rulesOn(AnnotatedElement element, String name, String fullName) {
        Set<RateLimited> found =
                AnnotatedElementUtils.getMergedRepeatableAnnotations(element, RateLimited.class, RateLimited.All.class);
        if (found.isEmpty()) {
            found = AnnotatedElementUtils.findMergedRepeatableAnnotations(
                    element, RateLimited.class, RateLimited.All.class);
        }
        List<Rule> read = new ArrayList<>(found.size());
        for (RateLimited limited : found) {
            // Several annotations without names on one element get a number.
            String number = read.isEmpty() ? "" : "-" + (read.size() + 1);
            String chosen = limited.name();
            read.add(rule(limited, chosen.isEmpty() ? nameOf(name + number, fullName + number) : chosen));
        }
        return read;
    }

    /** Returns the default name of a rule, shortened if necessary; fails if another rule already has it. */
    private String nameOf(String name, String fullName) {
        String clean = shortened(name.replaceAll("[^A-Za-z0-9._-]", "."), fullName);
        String other = names.putIfAbsent(clean, fullName);
        if (other != null && !other.equals(fullName)) {
            throw new IllegalArgumentException("its name would be " + clean + ", like that of " + other
                    + ": expected a unique name, for example @RateLimited(name = \"reports\")");
        }
        return clean;
    }

    /** Shortens a name with a hash, which is the same in all instances of a service. */
    private static String shortened(String name, String fullName) {
        return name.length() <= LONGEST_NAME
                ? name
                : name.substring(0, LONGEST_NAME - 9) + "-" + HexFormat.of().toHexDigits(fullName.hashCode());
    }

    private Rule rule(RateLimited limited, String name) {
        Rule.Builder rule = Rule.named(name)
                .key(keys.parse(limited.key()))
                .cost(limited.cost())
                .whenUndecided(limited.whenUndecided())
                .refundWhen(limited.refundWhen())
                .shadow(limited.shadow());
        WhenMissing[] whenMissing = limited.whenMissing();
        if (whenMissing.length > 1) {
            throw new IllegalArgumentException("whenMissing " + Arrays.toString(whenMissing)
                    + " are several: expected one at most, for example whenMissing = WhenMissing.SKIP");
        }
        if (whenMissing.length == 1) {
            rule.whenMissing(whenMissing[0]);
        }
        for (String limit : limited.value()) {
            rule.limit(Limit.parse(limit));
        }
        return rule.build();
    }
}
