package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.RuleReader;
import org.springframework.beans.BeansException;
import org.springframework.beans.factory.ListableBeanFactory;

/** What settings of rules refer to: beans, by their names. */
record NamedBeans(ListableBeanFactory beans) implements RuleReader.Named {

    @Override
    public <T> T get(String name, Class<T> type) {
        try {
            return beans.getBean(name, type);
        } catch (BeansException e) {
            throw new IllegalArgumentException(
                    "there is no such bean of type " + type.getName() + ": expected the name of one" + known(type), e);
        }
    }

    private String known(Class<?> type) {
        String[] names = beans.getBeanNamesForType(type);
        return names.length == 0 ? ", and there is none" : ", for example " + names[0];
    }
}
