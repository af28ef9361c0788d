package io.github.spillgate.vertx;

import io.vertx.core.Context;
import reactor.blockhound.BlockHound;
import reactor.blockhound.integration.BlockHoundIntegration;

/** Tells BlockHound which threads are event loops of Vert.x. */
public final class EventLoopsMustNotBlock implements BlockHoundIntegration {

    @Override
    public void applyTo(BlockHound.Builder builder) {
        builder.nonBlockingThreadPredicate(known -> known.or(thread -> Context.isOnEventLoopThread()));
        // A Vert.x that is being closed: one of its event loops ends the pools of those threads that may block, while
        // the last of them are on their way out. Left at that, it would never be closed.
        builder.allowBlockingCallsInside("io.vertx.core.internal.WorkerPool", "close");
        // An event loop that hands work to a worker verticle waits for a concurrent writer of the same queue. Without
        // this, the work would be lost.
        builder.allowBlockingCallsInside("io.vertx.core.impl.TaskQueue", "execute");
    }
}
