package io.github.spillgate.redis;

import java.util.concurrent.RejectedExecutionException;
import reactor.core.scheduler.Scheduler;

/** Emits answers on a scheduler, so that no caller continues on the thread that reads from Redis. */
record Delivery(Scheduler scheduler) {

    void deliver(Runnable answer) {
        try {
            scheduler.schedule(answer);
        } catch (RejectedExecutionException e) {
            // The user has shut down the scheduler before the last decision.
            answer.run();
        }
    }
}
