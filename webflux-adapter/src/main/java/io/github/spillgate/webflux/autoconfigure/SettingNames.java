package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.Spelling;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.BeanUtils;
import org.springframework.boot.context.properties.bind.DataObjectPropertyName;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ResolvableType;

/**
 * The names of the settings that a record has. They are those of its constructor's parameters, of which Spring Boot
 * reads the settings as well: in a native image too, where nothing else of a record may be known.
 *
 * @param children the settings, by their names; null for one that has none below it
 * @param type what is set: the record, the enum and so on; of a list, what is in it
 * @param isList whether there can be several
 */
record SettingNames(@Nullable Map<String, SettingNames> children, Class<?> type, boolean isList) {

    static SettingNames of(Class<?> settings) {
        return of(ResolvableType.forClass(settings));
    }

    private static SettingNames of(ResolvableType type) {
        boolean isList = List.class.equals(type.resolve());
        Class<?> one = isList ? type.getGeneric(0).resolve(Object.class) : type.resolve(Object.class);
        return new SettingNames(one.isRecord() ? children(one) : null, one, isList);
    }

    private static Map<String, SettingNames> children(Class<?> type) {
        Constructor<?> constructor = BeanUtils.getResolvableConstructor(type);
        @Nullable
        String[] names = Objects.requireNonNull(
                new DefaultParameterNameDiscoverer().getParameterNames(constructor),
                () -> "the parameters of " + type + " have no names: expected it to be compiled with -parameters");
        Map<String, SettingNames> children = new LinkedHashMap<>();
        for (int i = 0; i < names.length; i++) {
            children.put(
                    DataObjectPropertyName.toDashedForm(Objects.requireNonNull(names[i])),
                    of(ResolvableType.forConstructorParameter(constructor, i)));
        }
        return children;
    }

    /** Returns the setting of this name, which may be written without its dashes, as Spring Boot allows. */
    @Nullable
    SettingNames child(String name) {
        if (children == null) {
            return null;
        }
        for (Map.Entry<String, SettingNames> child : children.entrySet()) {
            if (Spelling.plain(child.getKey()).equals(Spelling.plain(name))) {
                return child.getValue();
            }
        }
        return null;
    }

    /** Returns the names below this one, in their order. */
    List<String> names() {
        return children == null ? List.of() : new ArrayList<>(children.keySet());
    }
}
