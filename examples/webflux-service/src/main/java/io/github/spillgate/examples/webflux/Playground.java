package io.github.spillgate.examples.webflux;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.StoreState.Breaker;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * The endpoints of the page at {@code /}. The page itself is a resource, and its limit is a rule in application.yaml.
 */
@RestController
@RequestMapping("/playground")
final class Playground {

    private final RateLimiter limiter;
    private final StoreSwitch store;

    Playground(RateLimiter limiter, StoreSwitch store) {
        this.limiter = limiter;
        this.store = store;
    }

    /** Does nothing. The page shows whether the limiter allows the request. */
    @GetMapping("/hit/{page:[0-9]{3}}")
    String hit() {
        return "allowed\n";
    }

    /**
     * Returns the deciding store and the current problem. It names servers and their errors, which only operators may
     * see.
     *
     * <p>The page polls one second after the previous response. A stream of events would be a little faster, but each
     * open page would hold one of the six connections that a browser opens to a host.
     */
    @GetMapping("/state")
    State state(ServerWebExchange exchange) {
        ThisMachine.checkRead(exchange);
        return State.of(limiter.state(), store);
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

    record State(
            Source source,
            Breaker breaker,
            @Nullable String problem,
            long fallbacks,
            long toReconcile,
            long reconciled,
            long lost,
            long unknown,
            Server store) {

        static State of(StoreState state, StoreSwitch store) {
            return new State(
                    state.source(),
                    state.breaker(),
                    state.problem().orElse(null),
                    state.fallbacks(),
                    state.toReconcile(),
                    state.reconciled(),
                    state.lost(),
                    state.unknown(),
                    store.state());
        }
    }

    /** The server by its name, because its URI may contain a password. */
    record Server(String product, String name, boolean ours, boolean running) {}
}
