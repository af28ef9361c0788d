package io.github.spillgate.spi;

import java.util.concurrent.TimeUnit;
import org.reactivestreams.Subscription;

/**
 * The subscription to a decision of a server, which knows when the request could be sent and whether a reply may be
 * waiting to be read. A store may pass such a subscription to the subscribers of {@link LimitStore#take}. Otherwise
 * a missed deadline always counts as a failure of the server, even if the caller's own event loop was too busy to read
 * the reply.
 */
public interface RemoteSubscription extends Subscription {

    /**
     * Runs a task if the server has had this time for its reply, and no reply has arrived. Does not run it if the
     * decision is answered before that is known.
     *
     * @param time how long the server may take, from when the request could be sent; the time in which it waits for
     *     earlier requests counts
     * @param unit the unit of the time
     * @param task runs on any thread, at most once
     */
    void ifSilentFor(long time, TimeUnit unit, Runnable task);

    /**
     * Returns whether the server replies to later requests: to one that was sent on the same connection since this one
     * could be sent, or to one on another connection while this connection is silent. Then the server works: this
     * request waits behind too many others, or lacks CPU time, or its connection is broken. A deadline that is missed
     * for this reason does not count as a failure of the server.
     *
     * @param time how long the connection has been silent at least, if it is
     * @param unit the unit of the time
     * @return whether the server replies to later requests; by default false, if that is not known
     */
    default boolean isServerReplying(long time, TimeUnit unit) {
        return false;
    }

    /**
     * Returns whether the caller's own event loop reads the reply. Then the caller loses nothing by waiting for the
     * next run of that loop, which begins with reading.
     *
     * @return by default true
     */
    default boolean isReadByCaller() {
        return true;
    }
}
