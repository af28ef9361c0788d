package io.github.spillgate.vertx;

import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.testkit.HttpAdapter;

/** Vert.x Web for the HTTP contract. */
final class VertxHttpAdapter implements HttpAdapter {

    @Override
    public PathSyntax syntax() {
        return RoutePaths.ofVertx();
    }

    @Override
    public String pattern(String pattern) {
        return pattern.replace("/**", "/*").replaceAll("\\{(\\w+)}", ":$1");
    }

    @Override
    public Server start(Setup setup) {
        return Service.start(setup);
    }
}
