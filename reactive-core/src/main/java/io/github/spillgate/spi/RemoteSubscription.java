package io.github.spillgate.spi;

import java.util.concurrent.TimeUnit;
import org.reactivestreams.Subscription;

/**
 * The subscription to a decision of a server, which knows when the request could be sent and whether a reply may be
 * waiting to be read. A store may pass such a subscription to the subscribers of {@link LimitStore#take} and {@link
 * LimitStore#peek}. Otherwise a missed deadline always counts as a failure of the server, even if the caller's own
 * event loop was too busy to read the reply.
 */
public interface RemoteSubscription extends Subscription {

    /**
     * Runs a task if the server is silent: if it has had this time for its reply, and no reply has arrived. Does not
     * run it if the decision is answered before that is known.
     *
     * @param time how long the server may take, from when the request could be sent; the time in which it waits for
     *     earlier requests counts
     * @param unit the unit of the time
     * @param task runs on any thread, at most once
     */
    void ifSilentFor(long time, TimeUnit unit, Runnable task);

    /**
     * Returns whether only the connection of this request is silent: the server has replied to a later request on
     * another connection. A deadline that is missed for this reason does not count as a failure of the server.
     *
     * @param time how long the connection has been silent at least
     * @param unit the unit of the time
     * @return whether the server replies on another connection; by default false, if that is not known
     */
    default boolean isSilentAlone(long time, TimeUnit unit) {
        return false;
    }
}
