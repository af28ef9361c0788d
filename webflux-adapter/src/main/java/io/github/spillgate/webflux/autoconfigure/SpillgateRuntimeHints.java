package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.webflux.RateLimited;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;

/**
 * The hints for a native image: the annotation, because Spring reads its attributes by reflection, and the classes that
 * the adapter looks up by name. Without the latter, the limiter could take the address of a client from a header that
 * the client has written.
 *
 * <p>The core has hints of its own, which also apply without Spring. Spring Boot finds the settings and the endpoint.
 */
final class SpillgateRuntimeHints implements RuntimeHintsRegistrar {

    private static final List<String> LOOKED_UP_BY_NAME = List.of(
            "reactor.netty.NettyInbound",
            "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory",
            "io.netty.handler.codec.quic.QuicChannel");

    @Override
    public void registerHints(RuntimeHints hints, @Nullable ClassLoader classLoader) {
        Stream.of(RateLimited.class, RateLimited.All.class)
                .forEach(type -> hints.reflection().registerType(type, MemberCategory.INVOKE_DECLARED_METHODS));
        // If it is a meta-annotation of an annotation of the application, Spring creates a proxy for it.
        hints.proxies().registerJdkProxy(RateLimited.class);
        LOOKED_UP_BY_NAME.forEach(name -> hints.reflection().registerTypeIfPresent(classLoader, name));
    }
}
