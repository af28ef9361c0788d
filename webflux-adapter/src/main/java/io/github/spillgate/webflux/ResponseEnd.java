package io.github.spillgate.webflux;

import reactor.core.publisher.Mono;

/** The end of a response, as its server reports it. */
interface ResponseEnd {

    /** Completes when the server has ended the response; before the actions run. */
    Mono<Void> end();

    /** Runs an action after the response has ended; at once if it has ended already. */
    void whenEnded(Runnable action);
}
