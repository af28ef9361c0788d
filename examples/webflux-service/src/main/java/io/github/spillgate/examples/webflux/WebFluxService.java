package io.github.spillgate.examples.webflux;

import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.examples.redis.ExampleServer;
import java.io.IOException;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.context.properties.ConfigurationPropertiesScan;
import org.springframework.context.ApplicationContext;
import org.springframework.core.env.MapPropertySource;

/** Starts two instances of the service on the Redis of the examples, and prints requests to try. */
@SpringBootApplication(proxyBeanMethods = false)
@ConfigurationPropertiesScan
public final class WebFluxService {

    private WebFluxService() {}

    public static void main(String[] args) throws IOException {
        run(ExampleRedis.open(), args);
    }

    /** Starts both instances, and returns the port of the first one. */
    static String run(ExampleServer server, String... args) {
        // Close the server after the service: until then the limiter may have permits to reconcile.
        SpringApplication.getShutdownHandlers().add(server::close);
        Traffic traffic = new Traffic();
        String first = port(on(server, traffic).run(args));
        String second = port(on(server, traffic)
                .initializers(context -> context.getEnvironment()
                        .getPropertySources()
                        .addFirst(new MapPropertySource("second", Map.of("server.port", 0))))
                .run(args));
        printRequests(first, second, server);
        return first;
    }

    private static String port(ApplicationContext started) {
        return started.getEnvironment().getRequiredProperty("local.server.port");
    }

    /**
     * Returns an instance of the service with counts on this server, which the playground can stop and the caller
     * closes.
     */
    static SpringApplicationBuilder on(ExampleServer server, Traffic traffic) {
        return new SpringApplicationBuilder(WebFluxService.class)
                .properties(server.setting() + "=" + server.uri())
                .initializers(context -> {
                    context.getBeanFactory().registerSingleton("exampleServer", server);
                    context.getBeanFactory().registerSingleton("traffic", traffic);
                });
    }

    private static void printRequests(String port, String second, ExampleServer server) {
        System.out.printf("""
            Two instances of a service that checks VAT numbers, on the ports %1$s and %4$s; their %2$s is %3$s. Try:

              http://localhost:%1$s
                    A page that sends requests to both, stops %2$s, and compares what three limiters allow.

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
            %n""", port, server.product(), server.name(), second);
    }
}
