package io.github.spillgate.webflux;

/** The end of a response, as its server reports it. */
@FunctionalInterface
interface ResponseEnd {

    /** Runs an action after the response has ended; at once if it has ended already. */
    void whenEnded(Runnable action);
}
