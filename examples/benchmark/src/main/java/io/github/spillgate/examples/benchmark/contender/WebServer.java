package io.github.spillgate.examples.benchmark.contender;

import java.util.function.Function;

/** The HTTP servers for an external load generator, by their names in the results. */
public enum WebServer {
    WEBFLUX_NONE("webflux none", WebFlux::unfiltered),
    WEBFLUX_LOCAL("webflux local", WebFlux::local),
    WEBFLUX_REDIS("webflux redis", WebFlux::inRedis),

    /** On a client of the application, so not on the event loop of the request. */
    WEBFLUX_CLIENT("webflux redis client", WebFlux::inRedisOfClient),
    WEBFLUX_GATEWAY("webflux gateway", WebFlux::gateway),
    WEBFLUX_BUCKET4J("webflux bucket4j", WebFlux::bucket4j),
    VERTX_NONE("vertx none", VertxWeb::unhandled),
    VERTX_LOCAL("vertx local", VertxWeb::local),
    VERTX_REDIS("vertx redis", VertxWeb::inRedis),

    /** A hand-written handler: one EVALSHA by Lettuce for each request. */
    VERTX_EVALSHA("vertx evalsha", VertxWeb::evalsha);

    /** The header with the key of a request. */
    public static final String KEY = "X-Api-Key";

    private final String title;

    @SuppressWarnings("ImmutableEnumChecker") // all of them are functions that hold nothing
    private final Function<Setting, Opened> open;

    WebServer(String title, Function<Setting, Opened> open) {
        this.title = title;
        this.open = open;
    }

    public String title() {
        return title;
    }

    public Opened open(Setting setting) {
        return open.apply(setting);
    }

    /** A server that listens. */
    public interface Opened extends AutoCloseable {

        int port();

        @Override
        void close();
    }
}
