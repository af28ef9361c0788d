package io.github.spillgate.vertx;

import io.vertx.core.Context;
import reactor.blockhound.BlockHound;
import reactor.blockhound.integration.BlockHoundIntegration;

/** Tells BlockHound which threads are event loops of Vert.x. */
public final class EventLoopsMustNotBlock implements BlockHoundIntegration {

    @Override
    public void applyTo(BlockHound.Builder builder) {
        builder.nonBlockingThreadPredicate(known -> known.or(thread -> Context.isOnEventLoopThread()));
    }
}
