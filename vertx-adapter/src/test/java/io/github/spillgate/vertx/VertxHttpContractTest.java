package io.github.spillgate.vertx;

import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.testkit.HttpContract;

class VertxHttpContractTest extends HttpContract {

    @Override
    protected PathSyntax syntax() {
        return RoutePaths.ofVertx();
    }

    @Override
    protected String pattern(String pattern) {
        return pattern.replace("/**", "/*").replaceAll("\\{(\\w+)}", ":$1");
    }

    @Override
    protected Server start(Setup setup) {
        return Service.start(setup);
    }
}
