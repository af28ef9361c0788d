package io.github.spillgate.examples.benchmark.contender;

import java.util.concurrent.CompletableFuture;

/** A callback with a result that a test can wait for. */
public final class FutureAnswer extends CompletableFuture<Boolean> implements Answer {

    static final String FELL_BACK = "the fallback has decided";

    @Override
    public void decided(boolean allowed) {
        complete(allowed);
    }

    @Override
    public void fellBack() {
        completeExceptionally(new IllegalStateException(FELL_BACK));
    }

    @Override
    public void failed(Throwable error) {
        completeExceptionally(error);
    }
}
