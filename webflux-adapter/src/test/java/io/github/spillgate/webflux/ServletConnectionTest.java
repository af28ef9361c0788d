package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.ServletRequest;
import java.io.EOFException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Requests of a container that reports their end in an unusual way, or not at all. */
class ServletConnectionTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    private final AtomicInteger ended = new AtomicInteger();
    private final List<AsyncListener> listeners = new CopyOnWriteArrayList<>();
    private volatile boolean isRecycled;
    private volatile @Nullable Object attribute;
    private boolean isAsync = true;
    private boolean refusesListeners;

    private @Nullable ServletConnection connection() {
        AsyncContext context = proxy(AsyncContext.class, (self, method, arguments) -> {
            boolean isAdding = method.getName().equals("addListener");
            if (isRecycled || (isAdding && refusesListeners)) {
                throw new IllegalStateException(method.getName());
            }
            return isAdding ? listeners.add((AsyncListener) arguments[0]) : Long.valueOf(-1);
        });
        return ServletConnection.ServletAccess.connection(proxy(ServletRequest.class, (self, method, arguments) -> {
            if (!isAsync) {
                throw new IllegalStateException(method.getName());
            }
            return method.getName().equals("getAttribute") ? attribute : context;
        }));
    }

    private static <T> T proxy(Class<T> type, InvocationHandler answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, answers));
    }

    @Test
    void severalEventsAreOneEnd() throws Exception {
        connection().whenEnded(ended::incrementAndGet);
        assertThat(ended).hasValue(0);
        for (AsyncListener listener : listeners) {
            listener.onError(null);
            listener.onComplete(null);
        }
        assertThat(ended).hasValue(1);
    }

    @Test
    void anEndThatTheContainerDoesNotReportIsNoticed() {
        connection().whenEnded(ended::incrementAndGet);
        isRecycled = true;
        await().atMost(LONG).until(() -> ended.get() == 1);
    }

    @Test
    void aReadThatHasFailedIsNoticed() {
        connection().whenEnded(ended::incrementAndGet);
        attribute = new EOFException();
        await().atMost(LONG).until(() -> ended.get() == 1);
    }

    @Test
    void aRequestThatHasEndedHasEndedAtOnce() {
        isAsync = false;
        connection().whenEnded(ended::incrementAndGet);
        assertThat(ended).hasValue(1);
        isAsync = true;
        isRecycled = true;
        connection().whenEnded(ended::incrementAndGet);
        assertThat(ended).hasValue(2);
    }

    @Test
    void aContainerThatRefusesAListenerReportsNoEnd() {
        refusesListeners = true;
        assertThat(connection()).isNull();
    }
}
