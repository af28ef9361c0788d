package io.github.spillgate.examples.webflux;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rules;
import java.net.URI;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.context.event.EventListener;
import org.springframework.core.env.Environment;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * The endpoints of the page at {@code /}. The page itself is a resource, and its limit is a rule in application.yaml.
 */
@RestController
@RequestMapping("/playground")
final class Playground {

    private static final int HIGHEST_RATE = 60;

    private final RateLimiter limiter;
    private final Rules rules;
    private final Comparison comparison;
    private final Traffic traffic;
    private final StoreSwitch store;

    Playground(RateLimiter limiter, Rules rules, Comparison comparison, Traffic traffic, StoreSwitch store) {
        this.limiter = limiter;
        this.rules = rules;
        this.comparison = comparison;
        this.traffic = traffic;
        this.store = store;
    }

    @EventListener(ApplicationReadyEvent.class)
    void join(ApplicationReadyEvent started) {
        Environment environment = started.getApplicationContext().getEnvironment();
        URI uri = URI.create("http://127.0.0.1:" + environment.getProperty("local.server.port"));
        traffic.join(new Traffic.Instance(uri, limiter, rules, comparison));
    }

    /** Does nothing. The page shows whether the limiter allows the request. */
    @GetMapping("/hit")
    String hit() {
        return "allowed\n";
    }

    /**
     * Sends the requests that are due, and returns what became of earlier ones. The page calls this some times a
     * second, so the traffic ends with the page. The response names servers and their errors, for operators only.
     */
    @PostMapping("/traffic")
    State traffic(@RequestParam int rate, ServerWebExchange exchange) {
        ThisMachine.checkChange(exchange);
        if (rate < 0 || rate > HIGHEST_RATE) {
            throw new ResponseStatusException(
                    HttpStatus.BAD_REQUEST, "expected rate=0 to " + HIGHEST_RATE + ", for example ?rate=25");
        }
        traffic.send(rate);
        return new State(traffic.seen(), store.state());
    }

    @PostMapping("/store/stop")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    Mono<Void> stop(ServerWebExchange exchange) {
        return checked(exchange, store.stop());
    }

    @PostMapping("/store/start")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    Mono<Void> start(ServerWebExchange exchange) {
        return checked(exchange, store.start());
    }

    private static Mono<Void> checked(ServerWebExchange exchange, Mono<Void> change) {
        ThisMachine.checkChange(exchange);
        return change;
    }

    record State(Traffic.Seen traffic, Server store) {}

    /** The server by its name, because its URI may contain a password. */
    record Server(String product, String name, boolean ours, boolean running) {}
}
