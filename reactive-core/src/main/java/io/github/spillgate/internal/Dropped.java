package io.github.spillgate.internal;

import reactor.core.publisher.Operators;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/** Errors that no caller can get. */
public final class Dropped {

    private Dropped() {}

    /**
     * Passes an error to Reactor's hook. Throws nothing, even if the hook does.
     *
     * @param error the error
     */
    public static void report(Throwable error) {
        report(error, Context.empty());
    }

    /**
     * Passes what a subscriber has thrown to Reactor's hook. Throws nothing, even if the hook does: others follow.
     *
     * @param thrown what was thrown
     * @param context the Context of the subscriber, which may have a hook of its own
     */
    public static void report(Throwable thrown, ContextView context) {
        try {
            Operators.onErrorDropped(thrown, Context.of(context));
        } catch (Throwable e) {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
    }
}
