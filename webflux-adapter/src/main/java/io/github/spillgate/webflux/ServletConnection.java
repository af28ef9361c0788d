package io.github.spillgate.webflux;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.RequestDispatcher;
import jakarta.servlet.ServletRequest;
import java.io.IOException;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.util.ClassUtils;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * A request that a servlet container serves, such as Tomcat. It reports when the container has ended the request: its
 * response was sent, or its client has disconnected.
 */
final class ServletConnection implements ResponseEnd {
    // Design notes.
    //
    // The chain of filters does not always end with the request. If a client disconnects while another thread writes,
    // Tomcat recycles the response, and Spring's response then throws within onNext. Reactor drops that error. So the
    // filters cancel their chain when the container has ended the request.
    //
    // The container reports that end to an AsyncListener, with two exceptions, for which a request with permits is
    // checked once a second.
    //
    // A write on another thread fails, and a container thread notices it: Tomcat recycles the request at once and
    // reports nothing. The methods of a recycled AsyncContext throw. The handler has ended too, because its write has
    // failed.
    //
    // A read on another thread fails, most often because the handler of an upload is slower than its client. Spring
    // (tried with 7.0.9) drops the error, and the handler waits for the rest of the body for ever. But Tomcat sets the
    // attribute of the request for errors. The request then ends because the filters cancel their chain.

    private static final boolean SERVLET =
            ClassUtils.isPresent("jakarta.servlet.AsyncListener", ServletConnection.class.getClassLoader());

    /** How often a request is checked for an end that the container has not reported. */
    private static final Duration CHECK = Duration.ofSeconds(1);

    private final Sinks.Empty<Void> end = Sinks.empty();
    private final BooleanSupplier hasEnded;

    private ServletConnection(BooleanSupplier hasEnded) {
        this.hasEnded = hasEnded;
    }

    /**
     * Returns the connection of a request, also if a filter has decorated the request; null if it is not served by a
     * container that reports the end. Call it on the thread of the request.
     */
    static @Nullable ServletConnection of(ServerHttpRequest request) {
        return SERVLET ? ServletAccess.connection(request) : null;
    }

    @Override
    public Mono<Void> end() {
        return end.asMono();
    }

    /** Also starts the check for an end that the container does not report. */
    @Override
    public void whenEnded(Runnable action) {
        end().subscribe(null, null, action);
        Flux.interval(CHECK).takeUntilOther(end()).subscribe(tick -> {
            if (hasEnded.getAsBoolean()) {
                ended();
            }
        });
    }

    private void ended() {
        end.tryEmitEmpty();
    }

    /** A class of its own, so that it is loaded only if the servlet API is on the class path. */
    static final class ServletAccess {

        private ServletAccess() {}

        private static @Nullable ServletConnection connection(ServerHttpRequest request) {
            return NettyConnection.nativeOf(request) instanceof ServletRequest served ? connection(served) : null;
        }

        static @Nullable ServletConnection connection(ServletRequest request) {
            AsyncContext context;
            try {
                context = request.getAsyncContext();
            } catch (IllegalStateException e) {
                // Spring has made the request asynchronous, so it has ended.
                return ended(() -> true);
            }
            BooleanSupplier hasEnded = () -> isRecycled(context) || hasReadFailed(request);
            ServletConnection connection = new ServletConnection(hasEnded);
            try {
                context.addListener(new EndListener(connection::ended));
                return connection;
            } catch (IllegalStateException e) {
                // A container may refuse a listener after the first thread has left the request.
                return hasEnded.getAsBoolean() ? ended(hasEnded) : null;
            }
        }

        private static ServletConnection ended(BooleanSupplier hasEnded) {
            ServletConnection connection = new ServletConnection(hasEnded);
            connection.ended();
            return connection;
        }

        private static boolean isRecycled(AsyncContext context) {
            try {
                context.getTimeout();
                return false;
            } catch (IllegalStateException e) {
                return true;
            }
        }

        private static boolean hasReadFailed(ServletRequest request) {
            try {
                return request.getAttribute(RequestDispatcher.ERROR_EXCEPTION) instanceof IOException;
            } catch (IllegalStateException e) {
                return true;
            }
        }
    }

    /** Runs an action for each event that ends a request; the action must be idempotent. */
    private record EndListener(Runnable action) implements AsyncListener {

        @Override
        public void onComplete(AsyncEvent event) {
            action.run();
        }

        @Override
        public void onTimeout(AsyncEvent event) {
            action.run();
        }

        @Override
        public void onError(AsyncEvent event) {
            action.run();
        }

        @Override
        public void onStartAsync(AsyncEvent event) {}
    }
}
