package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.settings.RuleReader;
import io.github.spillgate.internal.syntax.Spelling;
import java.util.List;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.util.ClassUtils;

/** The beans that the settings of rules refer to by name. */
record NamedBeans(ListableBeanFactory beans) implements RuleReader.BeanLookup {

    @Override
    public <T> T get(String name, Class<T> type) {
        if (beans.containsBean(name) && beans.isTypeMatch(name, type)) {
            return beans.getBean(name, type);
        }
        throw new IllegalArgumentException(
                (beans.containsBean(name) ? "the bean is not of type " : "there is no such bean of type ")
                        + ClassUtils.getShortName(type) + ": "
                        + expected(name, List.of(beans.getBeanNamesForType(type))));
    }

    private static String expected(String name, List<String> names) {
        return names.isEmpty()
                ? "expected a @Bean of that type with this name, and there is none of any name"
                : Spelling.expected(name, names);
    }
}
