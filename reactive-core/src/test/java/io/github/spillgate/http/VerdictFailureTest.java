package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import reactor.core.Exceptions;

/** The verdict on a request that failed with a denial of a limiter. */
class VerdictFailureTest {

    private static final Limit LIMIT = Limit.perHour(1);

    private final RateLimiter limiter =
            RateLimiter.builder("test").store(LocalStore.bounded(16)).build();

    private final RateLimitedException denied = new RateLimitedException(take(2));

    @Test
    void aDenialIsFoundInWhatWrapsIt() {
        for (Throwable failure : List.of(
                denied,
                new CompletionException(denied),
                new CompletionException(new CompletionException(denied)),
                Exceptions.propagate(new CompletionException(denied)))) {
            Optional<Verdict> verdict = Verdict.ofFailure(failure);
            assertThat(verdict.flatMap(Verdict::decision)).as("%s", failure).hasValue(denied.decision());
            assertThat(verdict.orElseThrow().isAllowed()).isFalse();
            assertThat(verdict.orElseThrow().dependsOnStatus()).isFalse();
            assertThat(verdict.orElseThrow().problem().orElseThrow().status()).isEqualTo(429);
        }
    }

    @Test
    void otherFailuresAreNoDenial() {
        assertThat(Verdict.ofFailure(null)).isEmpty();
        assertThat(Verdict.ofFailure(new IllegalStateException(denied))).isEmpty();
        assertThat(Verdict.ofFailure(new CompletionException("without a cause", null)))
                .isEmpty();
        assertThat(Verdict.ofFailure(new RateLimitedException(take(1))))
                .as("allowed")
                .isEmpty();
    }

    @Test
    void aDeserializedExceptionHasNoDecisionToAnswerWith() throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(denied);
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            assertThat(Verdict.ofFailure((RateLimitedException) in.readObject()))
                    .isEmpty();
        }
    }

    private Decision take(long permits) {
        return limiter.tryAcquire(Charge.of("all", LIMIT).permits(permits)).block();
    }
}
