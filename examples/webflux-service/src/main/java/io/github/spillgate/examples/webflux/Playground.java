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

/** What the page at {@code /} asks for; the page itself is a resource, and its limit a rule in application.yaml. */
@RestController
@RequestMapping("/playground")
final class Playground {

    private final RateLimiter limiter;
    private final RedisSwitch redis;

    Playground(RateLimiter limiter, RedisSwitch redis) {
        this.limiter = limiter;
        this.redis = redis;
    }

    /** Does nothing; whether one gets here is what there is to see. */
    @GetMapping("/hit/{page:[0-9]{3}}")
    String hit() {
        return "let in\n";
    }

    /**
     * Who decides, and what is wrong. That names servers and their errors, which are an operator's and nobody else's.
     *
     * <p>The page asks once a second, and not before it has its answer. A stream of events would be told a little
     * sooner; but each page that somebody has forgotten would keep a connection here, and one of the six that a browser
     * opens to a host.
     */
    @GetMapping("/state")
    State state(ServerWebExchange exchange) {
        ThisMachine.checkIsAsking(exchange);
        return State.of(limiter.state(), redis);
    }

    @PostMapping("/redis/stop")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    Mono<Void> stopRedis(ServerWebExchange exchange) {
        return turn(exchange, redis.stop());
    }

    @PostMapping("/redis/start")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    Mono<Void> startRedis(ServerWebExchange exchange) {
        return turn(exchange, redis.start());
    }

    private static Mono<Void> turn(ServerWebExchange exchange, Mono<Void> turn) {
        ThisMachine.checkIsTelling(exchange);
        return turn;
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
            Redis redis) {

        static State of(StoreState state, RedisSwitch redis) {
            return new State(
                    state.source(),
                    state.breaker(),
                    state.problem().orElse(null),
                    state.fallbacks(),
                    state.toReconcile(),
                    state.reconciled(),
                    state.lost(),
                    state.unknown(),
                    redis.state());
        }
    }

    /** Where it is told by its name, and not by its URI, in which there may be a password. */
    record Redis(String name, boolean ours, boolean running) {}
}
