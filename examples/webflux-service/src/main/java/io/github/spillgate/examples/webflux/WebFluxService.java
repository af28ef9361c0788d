package io.github.spillgate.examples.webflux;

import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.examples.redis.ExampleServer;
import java.io.IOException;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.context.properties.ConfigurationPropertiesScan;
import org.springframework.core.env.Environment;

/** Starts the service on the Redis of the examples, and prints requests to try. */
@SpringBootApplication(proxyBeanMethods = false)
@ConfigurationPropertiesScan
public final class WebFluxService {

    private WebFluxService() {}

    public static void main(String[] args) throws IOException {
        run(ExampleRedis.open(), args);
    }

    static void run(ExampleServer server, String... args) {
        // Close the server after the service: until then the limiter may have permits to reconcile.
        SpringApplication.getShutdownHandlers().add(server::close);
        Environment started = on(server).run(args).getEnvironment();
        printRequests(started.getProperty("local.server.port"), server);
    }

    /** Returns the service with counts on this server, which the playground can stop and the caller closes. */
    static SpringApplicationBuilder on(ExampleServer server) {
        return new SpringApplicationBuilder(WebFluxService.class)
                .properties(server.setting() + "=" + server.uri())
                .initializers(context -> context.getBeanFactory().registerSingleton("exampleServer", server));
    }

    private static void printRequests(@Nullable String port, ExampleServer server) {
        System.out.printf("""
            A service that checks VAT numbers, at http://localhost:%1$s; its %2$s is %3$s. Try:

              http://localhost:%1$s
                    A page that sends requests at a rate that you choose, plots the decisions, and stops %2$s.

              curl -i -X POST -H 'X-Api-Key: free-key' 'localhost:%1$s/v1/validate?number=FI12345678'
                    The header fields show the remaining permits: 30 a minute, and 100 a month. paid-key has 10,000.

              curl -s -o /dev/null -w '%%{http_code} ' -X POST -H 'X-Api-Key: paid-key' \\
                    'localhost:%1$s/v1/validate?number=FI[10000001-10000031]'
                    31 requests within a minute: the last one is denied.

              curl -i -X POST -H 'X-Api-Key: free-key' 'localhost:%1$s/v1/validate?number=FI12345678&number=DE123456789'
                    A request takes one permit for each number.

              curl -H 'X-Api-Key: free-key' localhost:%1$s/v1/usage
                    The usage of each limit. Reading it takes no permit.

              curl -N -H 'X-Api-Key: free-key' 'localhost:%1$s/v1/completions?prompt=a+short+story&words=120'
                    A stream that costs tokens: an estimate is reserved, and the real number is settled at its end.

              curl localhost:%1$s/actuator/spillgate
                    The rules and the deciding store. More: /actuator/health and /actuator/metrics/spillgate.decisions.

            Ctrl-C ends it.
            %n""", port, server.product(), server.name());
    }
}
