package io.github.spillgate.examples.grpc;

import io.github.spillgate.Decision;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A call that the limiter may end while its handler is still responding, perhaps on another thread. */
final class LimitedCall<Q, A> extends SimpleForwardingServerCall<Q, A> {

    private static final Duration LONGEST_PUSHBACK = Duration.ofSeconds(30);

    private @Nullable Decision decision;
    private boolean closed;
    private boolean ended;

    LimitedCall(ServerCall<Q, A> call) {
        super(call);
    }

    synchronized void tell(Decision decided) {
        decision = decided;
    }

    synchronized void end(Status status, Metadata trailers) {
        if (!closed) {
            ended = true;
            closed = true;
            super.close(status, trailers);
        }
    }

    /** Returns whether the limiter has ended the call, and not its handler. */
    synchronized boolean isEnded() {
        return ended;
    }

    @Override
    public synchronized void sendHeaders(Metadata headers) {
        if (!ended) {
            if (decision != null) {
                headers.merge(fields(decision));
            }
            super.sendHeaders(headers);
        }
    }

    @Override
    public synchronized void sendMessage(A message) {
        if (!ended) {
            super.sendMessage(message);
        }
    }

    @Override
    public synchronized void close(Status status, Metadata trailers) {
        if (!ended) {
            closed = true;
            super.close(status, trailers);
        }
    }

    /** What a denied client gets; nothing in it comes from the client. */
    static Metadata trailers(Decision denied) {
        Metadata trailers = fields(denied);
        long pushback = denied.retryAfter()
                .filter(wait -> wait.compareTo(LONGEST_PUSHBACK) <= 0)
                .map(Duration::toMillis)
                .orElse(-1L);
        trailers.put(field("grpc-retry-pushback-ms"), Long.toString(pushback));
        return trailers;
    }

    private static Metadata fields(Decision decision) {
        Metadata fields = new Metadata();
        RateLimitHeaders.all().write(List.of(decision), (name, value) -> fields.put(field(name), value));
        return fields;
    }

    private static Metadata.Key<String> field(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }
}
