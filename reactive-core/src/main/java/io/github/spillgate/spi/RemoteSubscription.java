package io.github.spillgate.spi;

import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.reactivestreams.Subscription;

/**
 * The subscription to a decision of a server, which knows when the request could be sent and whether a reply may be
 * waiting to be read. A store may pass such a subscription to the subscribers of {@link LimitStore#take}. Otherwise
 * a missed deadline always counts as a failure of the server, even if the caller's own event loop was too busy to read
 * the reply.
 */
public interface RemoteSubscription extends Subscription {

    /**
     * Finds out whether the server is silent: it has had this time for its reply, and has replied neither to this
     * request nor to later ones. If it replies to later ones, this request waits behind too many others, or its
     * connection is broken; its missed deadline then does not count as a failure of the server.
     *
     * @param time how long the server may take, from when the request could be sent; the time in which it waits for
     *     earlier requests counts
     * @param unit the unit of the time
     * @param isSilent gets the result on any thread, at most once; not called if the decision is answered before
     */
    void askIfSilent(long time, TimeUnit unit, Consumer<Boolean> isSilent);

    /**
     * Runs a task on the caller's own event loop after the next run of that, if that loop reads the reply. Each run
     * begins with reading, and the caller loses nothing by the wait.
     *
     * @param task runs at most once, and not before this method returns; not if the loop ends before
     * @return whether that loop reads the reply; by default false
     */
    default boolean runAfterReading(Runnable task) {
        return false;
    }
}
