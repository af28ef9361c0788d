package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.webflux.RateLimited;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;

/**
 * What a native image has to keep for Spring's sake: the annotation, of which Spring reads the attributes by reflection. What the
 * core looks up by name it says itself, for those without Spring as well; settings and the endpoint are Spring Boot's to find.
 */
final class SpillgateRuntimeHints implements RuntimeHintsRegistrar {

    @Override
    public void registerHints(RuntimeHints hints, @Nullable ClassLoader classLoader) {
        Stream.of(RateLimited.class, RateLimited.All.class)
                .forEach(type -> hints.reflection().registerType(type, MemberCategory.INVOKE_DECLARED_METHODS));
        // Where it stands on an annotation of the application's own, Spring makes one of its kind.
        hints.proxies().registerJdkProxy(RateLimited.class);
    }
}
