package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Limit;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.Spelling;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.BeanFactoryUtils;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName.Form;
import org.springframework.boot.context.properties.source.ConfigurationPropertySource;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.boot.context.properties.source.ConfigurationPropertyState;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.PropertySource;
import org.springframework.core.env.SystemEnvironmentPropertySource;
import org.springframework.util.StringUtils;

/**
 * A check of the settings at startup. It fails if a property below {@code spillgate} is unknown, if rules are outside
 * of it, or if an enum, a limit or a time has an invalid value. Spring Boot ignores unknown properties: a rule with
 * {@code path:} instead of {@code paths:} would limit all requests.
 *
 * <p>The check includes every property source that can list its names. It includes an environment variable only if the
 * name begins with {@code SPILLGATE_RULES_0_}, or another index. Others may be foreign, such as {@code
 * SPILLGATE_REDIS_SERVICE_HOST}, which Kubernetes sets if there is a service named {@code spillgate-redis}.
 */
final class SettingsCheck implements BeanFactoryPostProcessor {

    private static final String ROOT = "spillgate";
    private static final Pattern INTENTIONAL_ROOT =
            Pattern.compile("(.+[-_])?" + ROOT + "([-_].+|\\d+)?", Pattern.CASE_INSENSITIVE);
    private static final Pattern NUMBER = Pattern.compile("[+-]?\\d+");
    private static final Pattern RULE_VARIABLE =
            Pattern.compile("spillgate_rules_\\d+_(.+?)(_\\d+)?", Pattern.CASE_INSENSITIVE);

    private final ConfigurableEnvironment environment;
    private final SettingNames settings = SettingNames.of(SpillgateProperties.class);

    SettingsCheck(ConfigurableEnvironment environment) {
        this.environment = environment;
    }

    @Override
    public void postProcessBeanFactory(ConfigurableListableBeanFactory beans) {
        for (PropertySource<?> source : environment.getPropertySources()) {
            if (source instanceof EnumerablePropertySource<?> known) {
                boolean isVariables = source instanceof SystemEnvironmentPropertySource;
                for (String name : names(known)) {
                    if (isVariables) {
                        checkVariable(name);
                    } else {
                        checkProperty(name, beans);
                    }
                }
            }
        }
        checkValues(ConfigurationPropertyName.of(ROOT), settings);
    }

    /**
     * Returns the names in a source, sorted, so that of several mistakes always the same one is reported. Empty if the
     * source cannot list them.
     */
    private static Set<String> names(EnumerablePropertySource<?> source) {
        try {
            return new TreeSet<>(Arrays.asList(source.getPropertyNames()));
        } catch (UnsupportedOperationException e) {
            return Set.of();
        }
    }

    private void checkVariable(String variable) {
        Matcher found = RULE_VARIABLE.matcher(variable);
        SettingNames rule = settings.child("rules");
        if (rule != null && found.matches() && rule.child(found.group(1)) == null) {
            throw WrongSettingException.unknown(variable, found.group(1), rule.names());
        }
    }

    private void checkProperty(String property, ConfigurableListableBeanFactory beans) {
        ConfigurationPropertyName name = ConfigurationPropertyName.adapt(property, '.');
        if (name.getNumberOfElements() < 2) {
            return;
        }
        String root = name.getElement(0, Form.UNIFORM);
        if (root.equals(ROOT)) {
            WrongSettingException wrong = errorOf(property, name);
            if (wrong != null) {
                throw wrong;
            }
        } else if (isMisspelt(name.getElement(0, Form.ORIGINAL)) && errorOf(property, name) == null) {
            checkIsOfTheApplication(property, root, name.subName(1), beans);
        } else if (isLimitOfARule(name)) {
            checkIsOfTheApplication(property, root, name, beans);
        }
    }

    /** Returns whether this is {@code rules[0].limits} with a limit. Only the indentation can be what is wrong. */
    private boolean isLimitOfARule(ConfigurationPropertyName name) {
        if (!name.getElement(0, Form.UNIFORM).equals("rules")
                || !name.isNumericIndex(1)
                || name.getNumberOfElements() < 3
                || !name.getElement(2, Form.UNIFORM).equals("limits")) {
            return false;
        }
        try {
            List<String> limits = texts(name);
            limits.forEach(Limit::parse);
            return !limits.isEmpty();
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    private static void checkIsOfTheApplication(
            String property, String root, ConfigurationPropertyName ours, ConfigurableListableBeanFactory beans) {
        if (!isOfTheApplication(root, beans)) {
            throw new WrongSettingException(
                    property,
                    "…",
                    "the limiter does not read it: did you mean " + ROOT + "." + ours
                            + "? If it is a setting of your own, expected a class with"
                            + " @ConfigurationProperties(\"" + root + "\") that reads it",
                    null);
        }
    }

    /**
     * Returns the error of a property; null if there is a setting of its name. Does not check the first element, which
     * may be a misspelt root.
     */
    private @Nullable WrongSettingException errorOf(String property, ConfigurationPropertyName name) {
        SettingNames at = settings;
        boolean isIndexExpected = false;
        boolean isKeyExpected = false;
        for (int i = 1; i < name.getNumberOfElements(); i++) {
            String element = name.getElement(i, Form.ORIGINAL);
            String above = name.chop(i).toString();
            if (isKeyExpected) {
                isKeyExpected = false;
                continue;
            }
            if (isIndexExpected && name.isNumericIndex(i)) {
                isIndexExpected = false;
                continue;
            }
            if (isIndexExpected) {
                String example = at.children() == null ? "" : "." + at.names().get(0);
                return wrong(property, above + " is a list: expected, for example, " + above + "[0]" + example);
            }
            if (at.children() == null) {
                return wrong(property, above + " has no settings below it: expected a value for " + above);
            }
            SettingNames child = at.child(element);
            if (child == null) {
                WrongSettingException unknown = WrongSettingException.unknown(property, element, at.names());
                return at.equals(settings.child("rules"))
                        ? unknown.inRule(text(name.chop(i).append("name")))
                        : unknown;
            }
            at = child;
            isIndexExpected = child.isList();
            isKeyExpected = child.isMap();
        }
        if (at.isMap() && StringUtils.hasText(text(name))) {
            String example = isKeyExpected ? ".partner." : ".";
            return wrong(
                    property,
                    "expected, for example, " + name + example + at.names().get(0));
        }
        return null;
    }

    private static WrongSettingException wrong(String property, String why) {
        return new WrongSettingException(property, "…", "there is no such setting: " + why, null);
    }

    /** Returns whether a root is one letter off. One that contains ours, such as spillgate2, is intentional. */
    private static boolean isMisspelt(String root) {
        return !INTENTIONAL_ROOT.matcher(root).matches() && Spelling.isNear(root, ROOT);
    }

    private static boolean isOfTheApplication(String root, ConfigurableListableBeanFactory beans) {
        return Arrays.stream(
                        BeanFactoryUtils.beanNamesForAnnotationIncludingAncestors(beans, ConfigurationProperties.class))
                .map(bean -> beans.findAnnotationOnBean(bean, ConfigurationProperties.class))
                .anyMatch(own -> own != null
                        && (own.prefix().isEmpty()
                                || (Spelling.plain(own.prefix()) + ".").startsWith(Spelling.plain(root) + ".")));
    }

    /**
     * Checks the values that need a message of ours. Spring Boot would also reject most of them, but without the name
     * of the rule, and behind the types of a conversion.
     */
    private void checkValues(ConfigurationPropertyName where, SettingNames at) {
        if (at.children() == null) {
            return;
        }
        at.children().forEach((child, setting) -> {
            ConfigurationPropertyName name = where.append(child);
            if (setting.isMap()) {
                NamedLimiterBeans.names(environment)
                        .forEach(key -> checkValues(NamedLimiterBeans.setting(key), setting));
            } else if (setting.isList() && setting.children() != null) {
                checkElements(name, setting);
            } else {
                checkValue(name, setting, null);
                checkValues(name, setting);
            }
        });
    }

    /** Checks the elements of a list. Spring Boot reads a list only from the first source that contains it. */
    private void checkElements(ConfigurationPropertyName list, SettingNames at) {
        ConfigurationPropertySource source = firstWith(list);
        if (source == null || at.children() == null) {
            return;
        }
        for (int i = 0; isThere(source, list.append("[" + i + "]")); i++) {
            ConfigurationPropertyName element = list.append("[" + i + "]");
            at.children().forEach((child, setting) -> {
                ConfigurationPropertyName name = element.append(child);
                if (isThere(source, name) || source.getConfigurationProperty(name) != null) {
                    checkValue(name, setting, text(element.append("name")));
                }
            });
        }
    }

    private void checkValue(ConfigurationPropertyName name, SettingNames setting, @Nullable String rule) {
        Class<?> type = setting.type();
        if (!type.isEnum() && type != Duration.class && type != Limit.class) {
            return;
        }
        for (String value : texts(name)) {
            // A placeholder that is unresolved now may be resolved when the application runs.
            if (value.isBlank() || value.contains("${")) {
                continue;
            }
            try {
                if (type.isEnum()) {
                    checkEnum(name, value, type);
                } else {
                    WrongSettingException.checked(
                            name.toString(), value, type == Limit.class ? Limit::parse : SettingsCheck::duration);
                }
            } catch (WrongSettingException e) {
                throw e.inRule(rule);
            }
        }
    }

    private static void checkEnum(ConfigurationPropertyName name, String value, Class<?> type) {
        List<String> values = Arrays.stream(type.getEnumConstants())
                .map(constant ->
                        ((Enum<?>) constant).name().toLowerCase(Locale.ROOT).replace('_', '-'))
                .toList();
        if (values.stream().noneMatch(one -> letters(one).equals(letters(value)))) {
            throw WrongSettingException.unknownValue(name.toString(), value, values);
        }
    }

    /** Spring Boot takes a number for milliseconds, where the author may have meant seconds. */
    private static Duration duration(String value) {
        String found = "found " + Text.quote(value);
        if (NUMBER.matcher(value).matches() && !value.equals("0")) {
            throw new IllegalArgumentException(
                    found + ", which has no unit: expected a time with its unit, for example " + value + "ms or "
                            + value + "s");
        }
        try {
            return DurationStyle.detectAndParse(value);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(found + ": expected a time with its unit, for example 100ms", e);
        }
    }

    /** Reduces a value to the characters that Spring Boot compares. */
    private static String letters(String value) {
        return value.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]", "");
    }

    private @Nullable ConfigurationPropertySource firstWith(ConfigurationPropertyName list) {
        for (ConfigurationPropertySource source : ConfigurationPropertySources.get(environment)) {
            if (isThere(source, list)) {
                return source;
            }
        }
        return null;
    }

    private static boolean isThere(ConfigurationPropertySource source, ConfigurationPropertyName name) {
        return source.containsDescendantOf(name) == ConfigurationPropertyState.PRESENT;
    }

    /** Returns the values of a setting: of a list, or of a text with commas. */
    private List<String> texts(ConfigurationPropertyName name) {
        return Binder.get(environment).bind(name, Bindable.listOf(String.class)).orElse(List.of());
    }

    private @Nullable String text(ConfigurationPropertyName name) {
        return Binder.get(environment).bind(name, Bindable.of(String.class)).orElse(null);
    }
}
