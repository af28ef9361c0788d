package io.github.spillgate.http.settings;

import static io.github.spillgate.http.settings.WrongSettingException.checked;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.internal.syntax.Spelling;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * The limiters for code that settings have beside the main limiter, by name. They share its store. Each is called after
 * it, as in {@code shop.partner}, so that services on one Redis do not share counts by accident.
 */
public final class NamedLimiters {

    private final String setting;
    private final Map<String, RateLimiter> limiters = new LinkedHashMap<>();

    private NamedLimiters(String setting) {
        this.setting = setting;
    }

    /**
     * Creates limiters.
     *
     * @param setting the location of the limiters, such as {@code spillgate.limiters}
     * @param limits the limits of each limiter, by its name in the settings
     * @param main the limiter that has the store; close it after these limiters
     * @param common applies to each limiter what its builder needs besides store and limits
     * @return the limiters
     * @throws WrongSettingException if a name or the limits of a limiter are invalid
     */
    public static NamedLimiters of(
            String setting,
            Map<String, List<Limit>> limits,
            RateLimiter main,
            Consumer<? super RateLimiterBuilder> common) {
        NamedLimiters all = new NamedLimiters(setting);
        limits.forEach((name, given) -> {
            String place = setting + "." + name;
            RateLimiterBuilder limiter = checked(place, main.name() + "." + name, RateLimiter::builder);
            limiter.storeOf(main);
            common.accept(limiter);
            all.limiters.put(name, checked(place + ".limits", given, some -> {
                if (some.isEmpty()) {
                    throw new IllegalArgumentException("there are none: expected limits, for example 10/s");
                }
                some.forEach(limiter::limit);
                return limiter.build();
            }));
        });
        return all;
    }

    /**
     * Returns a limiter.
     *
     * @param name its name in the settings
     * @return the limiter
     * @throws IllegalArgumentException if there is no limiter of this name; the message has those that exist
     */
    public RateLimiter get(String name) {
        RateLimiter limiter = limiters.get(name);
        if (limiter == null) {
            throw new IllegalArgumentException("no limiter has this name: "
                    + (limiters.isEmpty()
                            ? "expected one of " + setting + ", and there is none"
                            : Spelling.expected(name, limiters.keySet())));
        }
        return limiter;
    }

    /**
     * Returns all limiters.
     *
     * @return a copy, by their names in the settings
     */
    public Map<String, RateLimiter> all() {
        return new LinkedHashMap<>(limiters);
    }
}
