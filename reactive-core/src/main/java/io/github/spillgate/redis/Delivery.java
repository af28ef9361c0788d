package io.github.spillgate.redis;

import java.util.concurrent.RejectedExecutionException;
import reactor.core.scheduler.Scheduler;

/** Where answers are delivered, so that nobody goes on with one on the thread that reads from Redis. */
final class Delivery {

    private final Scheduler scheduler;

    Delivery(Scheduler scheduler) {
        this.scheduler = scheduler;
    }

    Scheduler scheduler() {
        return scheduler;
    }

    void deliver(Runnable answer) {
        try {
            scheduler.schedule(answer);
        } catch (RejectedExecutionException e) {
            // The user has shut it down before he has stopped asking.
            answer.run();
        }
    }
}
