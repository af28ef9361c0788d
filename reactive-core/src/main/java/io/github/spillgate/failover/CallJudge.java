package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.RemoteSubscription;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import org.jspecify.annotations.Nullable;

/** The verdict on one call of the primary store, of which the breaker learns once. */
final class CallJudge {
    // Design notes.
    //
    // A call is judged when it ends, or after its deadline if it has not ended by then:
    //
    // - A request that was not executed because it was late says nothing about the store. But if that is found out at
    //   the deadline only, by a store without nodes to ask, the store has missed the deadline.
    // - If there is no reply, the node is asked once whether it is silent. It is not if it replies to later requests:
    //   then the call waits behind too many others, or an event loop was stalled, or one connection is broken.
    //   Otherwise one busy loop, or a burst of calls, would open the breaker for all.
    //
    // If this process was stalled before the deadline, the store may have replied long ago. Its node is then asked one
    // deadline later; the caller does not wait for that.

    private static final AtomicReferenceFieldUpdater<CallJudge, @Nullable CallVerdict> VERDICT =
            AtomicReferenceFieldUpdater.newUpdater(CallJudge.class, CallVerdict.class, "verdict");

    private final Failover failover;
    private final CircuitGate gate;
    private volatile @Nullable CallVerdict verdict;

    private enum CallVerdict {
        REPLIED,
        FAILED,
        SILENT,

        /** The call says nothing about the store. */
        UNKNOWN
    }

    CallJudge(Failover failover, CircuitGate gate) {
        this.failover = failover;
        this.gate = gate;
    }

    private boolean decide(CallVerdict first) {
        return VERDICT.compareAndSet(this, null, first);
    }

    /** Returns whether the store has replied in time: before it could be found silent. */
    boolean hasReplied() {
        return verdict == CallVerdict.REPLIED;
    }

    /** Judges a reply to a request that was sent at this time. */
    void reply(long sentAt) {
        if (decide(CallVerdict.REPLIED)) {
            gate.recordReply(Time.nanos() - sentAt);
        }
    }

    /**
     * Judges the failure of a request that was sent at this time.
     *
     * @param request the request, if its node can be asked
     */
    void failure(Throwable error, long sentAt, @Nullable RemoteSubscription request) {
        if (Kind.LATE.isOf(error)) {
            if (request == null && hasMissedDeadline(sentAt)) {
                silence(true);
            } else if (decide(CallVerdict.UNKNOWN)) {
                gate.recordNoResult();
            }
        } else if (decide(CallVerdict.FAILED)) {
            gate.recordFailure(Time.nanos() - sentAt, error);
        } else {
            gate.recordLateFailure(error);
        }
    }

    private boolean hasMissedDeadline(long sentAt) {
        return Time.nanos() - sentAt >= failover.deadlineNanos()
                && !failover.deadlines().isStalledSince(sentAt);
    }

    /** Judges that the store refused a refund or a reset. */
    void refusal(Throwable error) {
        if (decide(CallVerdict.FAILED)) {
            gate.recordRefusal(error);
        }
    }

    /**
     * Judges that there is no reply by the deadline.
     *
     * @param request the request, if its node can be asked
     * @param stalled whether this process was stalled since the call began
     */
    void deadline(@Nullable RemoteSubscription request, boolean stalled) {
        if (stalled) {
            failover.deadlines().add(() -> verdict != null, () -> askNode(request));
        } else {
            askNode(request);
        }
    }

    private void askNode(@Nullable RemoteSubscription request) {
        if (request == null) {
            silence(true);
        } else {
            request.askIfSilent(failover.deadlineNanos(), TimeUnit.NANOSECONDS, this::silence);
        }
    }

    private void silence(boolean isSilent) {
        if (!decide(isSilent ? CallVerdict.SILENT : CallVerdict.UNKNOWN)) {
            return;
        } else if (isSilent) {
            gate.recordFailure(failover.deadlineNanos(), failover.unanswered());
        } else {
            gate.recordNoResult();
        }
    }
}
