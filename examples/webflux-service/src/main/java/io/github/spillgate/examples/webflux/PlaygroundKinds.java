package io.github.spillgate.examples.webflux;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.webflux.RateLimitResponses;
import java.time.Duration;
import java.util.List;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The endpoint of the pictures of each kind of limit. It decides on requests under each kind separately, so that the
 * same traffic shows how they differ.
 */
@RestController
final class PlaygroundKinds {

    /** How long the work takes that a request with a permit of the concurrency limit stands for. */
    private static final Duration WORK = Duration.ofMillis(400);

    private static final int MOST = 20;

    /** Each allows five requests a second on average. */
    private static final List<Kind> KINDS = List.of(
            new Kind("log", Limit.of(50, Duration.ofSeconds(10))),
            new Kind("counter", Limit.of(50, Duration.ofSeconds(10)).counter()),
            new Kind("bucket", Limit.perSecond(5).burst(25)),
            new Kind("concurrent", Limit.concurrent(2).hold(Duration.ofSeconds(10))));

    private final RateLimiter limiter;

    PlaygroundKinds(RateLimiter limiter) {
        this.limiter = limiter;
    }

    /** Decides on a number of requests that the page has sent. */
    @GetMapping("/playground/kinds/{page:[0-9]{3}}")
    Flux<Counted> decide(@PathVariable String page, @RequestParam int requests, ServerWebExchange exchange) {
        if (requests < 1 || requests > MOST) {
            throw new ResponseStatusException(
                    HttpStatus.BAD_REQUEST, "expected requests=1 to " + MOST + ", for example ?requests=4");
        }
        String key = keyOf(exchange, page);
        return Flux.fromIterable(KINDS).flatMapSequential(kind -> decide(kind, key, requests));
    }

    /** Returns the key of the rule for this endpoint, which has the address of the client. */
    private static String keyOf(ServerWebExchange exchange, String page) {
        return RateLimitResponses.decisions(exchange).stream()
                .flatMap(decision -> decision.limits().stream())
                .map(Decision.Usage::key)
                .findFirst()
                .orElse(page);
    }

    private Mono<Counted> decide(Kind kind, String key, int requests) {
        Charge charge = Charge.of(key, kind.limit.named("kind-" + kind.name));
        return Flux.range(0, requests)
                .flatMap(request -> limiter.tryAcquire(charge))
                .doOnNext(this::releaseAfterWork)
                .filter(Decision::isAllowed)
                .count()
                .map(allowed -> new Counted(kind.name, kind.limit.toString(), allowed, requests - allowed));
    }

    /** Releases permits that are held; for other decisions this does nothing. If it fails, the permits expire. */
    private void releaseAfterWork(Decision decision) {
        Mono.delay(WORK).then(limiter.release(decision)).subscribe(null, error -> {});
    }

    private record Kind(String name, Limit limit) {}

    record Counted(String kind, String limit, long allowed, long denied) {}
}
