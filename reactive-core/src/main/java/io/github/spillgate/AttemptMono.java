package io.github.spillgate;

import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/**
 * Asks the store for each of its subscribers, about claims that are known: {@code Mono.defer}, with less in between.
 */
final class AttemptMono extends Mono<Decision> {

    private final RateLimiter limiter;
    private final List<Claim> claims;
    private final Function<List<Claim>, Mono<Decision>> how;

    private AttemptMono(RateLimiter limiter, List<Claim> claims, Function<List<Claim>, Mono<Decision>> how) {
        this.limiter = limiter;
        this.claims = claims;
        this.how = how;
    }

    static Mono<Decision> of(RateLimiter limiter, List<Claim> claims, Function<List<Claim>, Mono<Decision>> how) {
        return onAssembly(new AttemptMono(limiter, claims, how));
    }

    @Override
    public void subscribe(CoreSubscriber<? super Decision> actual) {
        Mono<Decision> answer;
        try {
            answer = Objects.requireNonNull(
                    limiter.answer(claims, how),
                    "the store answered with null: expected a Mono, as LimitStore promises");
        } catch (Throwable e) {
            // A store of the user's own may throw; a subscriber is told of it as of any other error.
            Operators.error(actual, Operators.onOperatorError(e, actual.currentContext()));
            return;
        }
        fromDirect(answer).subscribe(actual);
    }
}
