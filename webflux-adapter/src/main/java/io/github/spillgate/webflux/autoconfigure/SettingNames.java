package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.internal.syntax.Spelling;
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
 * The names of the settings in a record. They are the names of its constructor's parameters, to which Spring Boot binds
 * the settings. A native image may contain no other metadata of a record.
 *
 * @param children the nested settings by name; null for a setting without any
 * @param type the type of the setting, such as a record or an enum; for a list or a map, the type of its elements
 * @param isList whether the setting is a list
 * @param isMap whether the setting is a map, with keys that the application chooses
 */
record SettingNames(@Nullable Map<String, SettingNames> children, Class<?> type, boolean isList, boolean isMap) {

    static SettingNames of(Class<?> settings) {
        return of(ResolvableType.forClass(settings));
    }

    private static SettingNames of(ResolvableType type) {
        boolean isList = List.class.equals(type.resolve());
        boolean isMap = Map.class.equals(type.resolve());
        Class<?> one = (isList ? type.getGeneric(0) : isMap ? type.getGeneric(1) : type).resolve(Object.class);
        return new SettingNames(one.isRecord() ? children(one) : null, one, isList, isMap);
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

    /** Returns the nested setting of a name, which may be written without its dashes, as Spring Boot allows. */
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

    /** Returns the names of the nested settings, in order of declaration. */
    List<String> names() {
        return children == null ? List.of() : new ArrayList<>(children.keySet());
    }
}
