package io.github.spillgate;

import io.github.spillgate.spi.Claim;
import java.util.List;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/** A Mono that takes claims for each subscriber. Like {@code Mono.defer}, with one object less for each decision. */
final class TakeMono extends Mono<Decision> {

    private final RateLimiter limiter;
    private final List<Claim> claims;

    private TakeMono(RateLimiter limiter, List<Claim> claims) {
        this.limiter = limiter;
        this.claims = claims;
    }

    static Mono<Decision> of(RateLimiter limiter, List<Claim> claims) {
        return onAssembly(new TakeMono(limiter, claims));
    }

    @Override
    public void subscribe(CoreSubscriber<? super Decision> actual) {
        Mono<Decision> answer;
        try {
            answer = limiter.takeClaims(claims);
        } catch (Throwable e) {
            // A custom store may throw, although LimitStore does not allow it.
            Operators.error(actual, Operators.onOperatorError(e, actual.currentContext()));
            return;
        }
        fromDirect(answer).subscribe(actual);
    }
}
