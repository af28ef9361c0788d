package io.github.spillgate.examples.benchmark.contender;

import java.util.concurrent.CompletableFuture;

/** An answer that a test can wait for. */
public final class FutureAnswer extends CompletableFuture<Boolean> implements Answer {

    @Override
    public void decided(boolean allowed) {
        complete(allowed);
    }

    @Override
    public void fellBack() {
        completeExceptionally(new IllegalStateException("the fallback has decided"));
    }

    @Override
    public void failed(Throwable error) {
        completeExceptionally(error);
    }
}
