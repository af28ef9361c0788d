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
        // An event loop hands the work of a worker verticle over: it waits for whoever puts something into the same
        // queue just now. Without this, what it hands over would be lost.
        builder.allowBlockingCallsInside("io.vertx.core.impl.TaskQueue", "execute");
    }
}
