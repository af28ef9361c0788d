package io.github.spillgate.http;

import java.util.List;
import org.jspecify.annotations.Nullable;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * A tracer of the decisions of rules, including shadow rules. It is called while each request is processed, so it must
 * be fast and must not block. Its exceptions are dropped.
 */
@FunctionalInterface
public interface RuleTracer {

    /**
     * Starts a span. Called before keys, limits and costs are looked up.
     *
     * @param matches the request and the rules that are decided together; a shadow rule is decided alone
     * @param context the Reactor Context of the subscriber
     * @return the span; null for none
     */
    @Nullable
    Span start(List<RuleMatch> matches, ContextView context);

    /**
     * The span of one decision. It gets the events of this decision after all listeners, and then exactly one call of
     * {@link #ended()} or {@link #cancelled()}.
     */
    interface Span extends RuleListener {

        /**
         * Returns the Reactor Context for the functions and the store that take part in the decision.
         *
         * @param context the Reactor Context of the subscriber
         * @return the same context, or one with additional entries
         */
        default Context context(Context context) {
            return context;
        }

        /**
         * Called when the decision has ended, before the request goes on; also if there was nothing to decide, or if no
         * decision was possible.
         */
        void ended();

        /**
         * Called when the subscriber has cancelled, for example because the client has disconnected. The permits may
         * have been taken. A shadow rule also ends in this way if the other rules have not allowed the request; it has
         * taken nothing then.
         */
        void cancelled();
    }
}
