package io.github.spillgate.testkit;

import reactor.blockhound.BlockHound;
import reactor.blockhound.integration.BlockHoundIntegration;

/** What BlockHound lets pass in our tests, each with its reason in {@code docs/decisions/}. */
public final class AllowedToBlock implements BlockHoundIntegration {

    @Override
    public void applyTo(BlockHound.Builder builder) {
        // Caffeine hands its bookkeeping from thread to thread; when a flood of new keys fills the buffer for that, a
        // writer waits until the one who is at it has emptied it.
        builder.allowBlockingCallsInside("com.github.benmanes.caffeine.cache.BoundedLocalCache", "afterWrite");
        // A bucket of the JDK's map that has become a tree: who inserts into it waits until those who are reading it
        // are through.
        builder.allowBlockingCallsInside("java.util.concurrent.ConcurrentHashMap$TreeBin", "lockRoot");
        // Netty's pool of buffers grows when two of its threads want one at the same instant, and waits then for the
        // one who is still at a buffer that it replaces. Without this, a connection that is opened while another is
        // would hang with its handshake.
        builder.allowBlockingCallsInside("io.netty.buffer.AdaptivePoolingAllocator$Magazine", "free");
        // A connection that breaks: the thread that writes to it waits for Lettuce's own, which is just ending what was
        // under way, or the other way round.
        builder.allowBlockingCallsInside("io.lettuce.core.protocol.SharedLock", "incrementWriters");
        builder.allowBlockingCallsInside("io.lettuce.core.protocol.SharedLock", "doExclusive");
        // A connection with TLS that is being opened: Lettuce reads the certificates anew each time, from the files
        // that the user has named.
        builder.allowBlockingCallsInside(
                "io.lettuce.core.SslConnectionBuilder$SslChannelInitializer", "initializeSSLEngine");
        // A user's client that is being shut down: Lettuce ends its own threads from one of them, and nobody is waiting
        // for a decision any more.
        builder.allowBlockingCallsInside("io.lettuce.core.resource.DefaultClientResources", "shutdown");
    }
}
