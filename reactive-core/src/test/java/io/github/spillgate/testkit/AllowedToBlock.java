package io.github.spillgate.testkit;

import reactor.blockhound.BlockHound;
import reactor.blockhound.integration.BlockHoundIntegration;

/** What BlockHound lets pass in our tests, each with its reason in {@code docs/decisions/}. */
public final class AllowedToBlock implements BlockHoundIntegration {

    @Override
    public void applyTo(BlockHound.Builder builder) {
        // When a flood of new keys fills the write buffer of Caffeine, a writer waits until the maintenance thread has
        // drained it.
        builder.allowBlockingCallsInside("com.github.benmanes.caffeine.cache.BoundedLocalCache", "afterWrite");
        // In a tree bin of the JDK's ConcurrentHashMap, a writer waits for the current readers.
        builder.allowBlockingCallsInside("java.util.concurrent.ConcurrentHashMap$TreeBin", "lockRoot");
        // A timer that is cancelled takes the lock of the queue of timers. Reactor allows this for its other timers.
        builder.allowBlockingCallsInside("reactor.core.scheduler.PeriodicWorkerTask", "setFuture");
        builder.allowBlockingCallsInside("reactor.core.scheduler.PeriodicWorkerTask", "dispose");
        // Netty's buffer pool grows when two threads need a buffer at the same instant, and then waits for the thread
        // that still uses the replaced one. Without this, concurrent handshakes would hang.
        builder.allowBlockingCallsInside("io.netty.buffer.AdaptivePoolingAllocator$Magazine", "free");
        // A connection that breaks: the thread that writes to it waits for Lettuce's own, which is just ending what was
        // under way, or the other way round.
        builder.allowBlockingCallsInside("io.lettuce.core.protocol.SharedLock", "incrementWriters");
        builder.allowBlockingCallsInside("io.lettuce.core.protocol.SharedLock", "doExclusive");
        // For each TLS connection, Lettuce reads the certificates from the configured files again.
        builder.allowBlockingCallsInside(
                "io.lettuce.core.SslConnectionBuilder$SslChannelInitializer", "initializeSSLEngine");
        // On shutdown of a client, Lettuce ends its threads from one of them; no decision is in flight any more.
        builder.allowBlockingCallsInside("io.lettuce.core.resource.DefaultClientResources", "shutdown");
        // A test of callers that block threads.
        builder.allowBlockingCallsInside("io.github.spillgate.testkit.HeldThreads", "hold");
    }
}
