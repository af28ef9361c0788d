package io.github.spillgate.webflux;

import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.ServletRequest;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.util.ClassUtils;

/** Access to the request of a servlet container, such as Tomcat, also if a filter has decorated the request. */
final class ServletConnection {

    private static final boolean SERVLET =
            ClassUtils.isPresent("jakarta.servlet.AsyncListener", ServletConnection.class.getClassLoader());

    private ServletConnection() {}

    /**
     * Runs an action when the response to a request has ended, however it ended; at once if that has happened. The
     * chain of filters is not enough: if a client disconnects, Spring may neither complete nor cancel it.
     *
     * @return whether a servlet container serves the request
     */
    static boolean onEnd(ServerHttpRequest request, Runnable action) {
        return SERVLET && ServletAccess.onEnd(request, action);
    }

    /** A class of its own, so that it is loaded only if the servlet API is on the class path. */
    private static final class ServletAccess {

        static boolean onEnd(ServerHttpRequest request, Runnable action) {
            if (!(nativeOf(request) instanceof ServletRequest served)) {
                return false;
            }
            try {
                served.getAsyncContext().addListener(new EndListener(action));
            } catch (IllegalStateException e) {
                // The request is not asynchronous any more, so its response has ended.
                action.run();
            }
            return true;
        }

        private static Object nativeOf(ServerHttpRequest request) {
            try {
                return ServerHttpRequestDecorator.getNativeRequest(request);
            } catch (IllegalArgumentException | IllegalStateException e) {
                // No server has received this request, as in a test without a server.
                return request;
            }
        }
    }

    /** Runs an action for each event that ends a response; it must be idempotent. */
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
