package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.webflux.RateLimited;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.BindingReflectionHintsRegistrar;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;

/**
 * What a native image has to keep for Spring's sake: the annotation, of which Spring reads the attributes by
 * reflection; and the classes that the adapter asks for by name, or it would take the address of a client for one that
 * a header may say. What the core looks up by name it says itself, for those without Spring as well; settings and the
 * endpoint are Spring Boot's to find.
 */
final class SpillgateRuntimeHints implements RuntimeHintsRegistrar {

    private static final List<String> LOOKED_FOR = List.of(
            "reactor.netty.NettyInbound",
            "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory",
            "io.netty.handler.codec.quic.QuicChannel");

    @Override
    public void registerHints(RuntimeHints hints, @Nullable ClassLoader classLoader) {
        Stream.of(RateLimited.class, RateLimited.All.class)
                .forEach(type -> hints.reflection().registerType(type, MemberCategory.INVOKE_DECLARED_METHODS));
        // Where it stands on an annotation of the application's own, Spring makes one of its kind.
        hints.proxies().registerJdkProxy(RateLimited.class);
        // Spring Boot sees what the endpoint answers only as far as its methods' types say it.
        new BindingReflectionHintsRegistrar()
                .registerReflectionHints(
                        hints.reflection(), SpillgateEndpoint.LimitUsed.class, SpillgateEndpoint.Wrong.class);
        LOOKED_FOR.forEach(name -> hints.reflection().registerTypeIfPresent(classLoader, name));
    }
}
