package io.github.spillgate.examples.benchmark.contender;

import java.util.concurrent.CompletionStage;

/** Hands the result of a future on. */
final class Futures {

    private Futures() {}

    // What whenComplete returns tells nothing that the answer has not been told.
    @SuppressWarnings("FutureReturnValueIgnored")
    static void tell(CompletionStage<Boolean> future, Answer answer) {
        future.whenComplete((allowed, error) -> {
            if (error != null) {
                answer.failed(error);
            } else {
                answer.decided(allowed);
            }
        });
    }
}
