package io.github.spillgate.testkit;

import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import java.lang.reflect.Method;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Decisions as text, to compare those of several stores. */
public final class DecisionText {

    /** All of them, so that a new property of a usage is compared as well. */
    private static final List<Method> PROPERTIES = Stream.of(Usage.class.getMethods())
            .sorted(Comparator.comparing(Method::getName))
            .toList();

    private DecisionText() {}

    /** Returns a decision without its source. A decision that no store made has no store's clock. */
    public static String of(Decision decision) {
        return (decision.isAllowed() ? "allowed" : "denied")
                + (decision.limits().isEmpty() ? "" : " at " + decision.at())
                + " retry " + decision.retryAfter()
                + decision.near().stream().map(usage -> " near " + usage.key()).collect(Collectors.joining())
                + decision.limits().stream().map(DecisionText::of).collect(Collectors.joining("; ", " [", "]"));
    }

    /** Returns a usage. */
    public static String of(Usage usage) {
        return PROPERTIES.stream()
                .map(property -> property.getName() + "=" + value(property, usage))
                .collect(Collectors.joining(" "));
    }

    private static Object value(Method property, Usage usage) {
        try {
            return property.invoke(usage);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
