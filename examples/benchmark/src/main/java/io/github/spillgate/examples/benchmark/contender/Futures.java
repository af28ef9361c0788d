package io.github.spillgate.examples.benchmark.contender;

import java.util.concurrent.CompletionStage;

/** Passes on the result of a future. */
final class Futures {

    private Futures() {}

    // The future that whenComplete returns has no further information.
    @SuppressWarnings("FutureReturnValueIgnored")
    static void deliver(CompletionStage<Boolean> future, Answer answer) {
        future.whenComplete((allowed, error) -> {
            if (error != null) {
                answer.failed(error);
            } else {
                answer.decided(allowed);
            }
        });
    }
}
