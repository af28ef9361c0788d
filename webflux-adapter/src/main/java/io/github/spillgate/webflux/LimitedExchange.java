package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.RequestVerdicts;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.http.response.ResponseFields;
import io.netty.channel.Channel;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.reactive.DispatchExceptionHandler;
import org.springframework.web.reactive.HandlerResult;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.SignalType;

/** The verdicts on an exchange, for all web filters, handler filters and annotations that limit it. */
final class LimitedExchange {
    // Design notes.
    //
    // A web filter calls apply and, if the request is allowed, cancelAtEnd and settleAtEnd, all within releaseAtEnd. A
    // handler filter and an annotation do not see the end of the response: they call apply, settleAfterHandler and
    // cancelAtEnd.
    //
    // They cancel because Reactor Netty (tried with 1.3.7) does not cancel the work if a client sends no body and
    // resets the connection.

    private static final String ATTRIBUTE = LimitedExchange.class.getName();
    private static final int OK = 200;

    private final RequestVerdicts verdicts = new RequestVerdicts();
    private boolean isReported;
    private boolean isSettledAtEnd;
    private boolean isWatched;

    /** The end of the response; null if it is not Reactor Netty that sends it. */
    private @Nullable ResponseEnd end;

    /** The connection of a request that a servlet container serves. */
    private @Nullable ServletConnection servlet;

    /** The thread on which the exchange continues; that of the last verdict. */
    private @Nullable ExchangeThread thread;

    private LimitedExchange() {}

    static List<Decision> decisions(ServerWebExchange exchange) {
        LimitedExchange limited = exchange.getAttribute(ATTRIBUTE);
        return limited == null ? List.of() : limited.verdicts.decisions();
    }

    static RequestVerdicts verdicts(ServerWebExchange exchange) {
        return of(exchange).verdicts;
    }

    /**
     * Applies a verdict to an exchange: records it for the response, and returns whether it denies the request.
     *
     * @param verdict the verdict of the rules
     * @param responses the header fields that report it
     * @return the reason for a denial, empty if the request is allowed; emitted on the thread of the exchange
     */
    static Mono<Optional<Problem>> apply(
            ServerWebExchange exchange, Mono<Verdict> verdict, RateLimitResponses responses) {
        return Mono.defer(() -> {
            LimitedExchange limited = of(exchange);
            limited.watchEnd(exchange);
            // Before the decision, which may change the thread.
            ExchangeThread thread = ExchangeThread.of(exchange);
            limited.thread = thread;
            return verdict.flatMap(made -> thread.run(() -> Mono.just(limited.record(exchange, made, responses))));
        });
    }

    /**
     * Releases permits of concurrency limits when the server reports the end of the response. Reactor Netty reports it
     * even after an upgrade to WebSocket, for which the chain of filters ends with the handshake.
     */
    private void watchEnd(ServerWebExchange exchange) {
        if (isWatched) {
            return;
        }
        isWatched = true;
        end = NettyConnection.end(exchange.getRequest());
        servlet = end == null ? ServletConnection.of(exchange.getRequest()) : null;
        ResponseEnd watched = end == null ? servlet : end;
        if (watched != null) {
            verdicts.whenHolding(() -> watched.whenEnded(verdicts::release));
        }
    }

    /**
     * Cancels the work of an allowed request when Reactor Netty has ended the response, if the request holds permits:
     * the work must not go on without them.
     */
    static <T> Mono<T> cancelAtEnd(ServerWebExchange exchange, Mono<T> work) {
        Mono<Void> end = of(exchange).endOfPermits();
        return end == null ? work : work.takeUntilOther(end);
    }

    /** Cancels what the handler returns, like {@link #cancelAtEnd}, if it is a Mono or a Flux. */
    static HandlerResult cancelAtEnd(ServerWebExchange exchange, HandlerResult result) {
        Mono<Void> end = of(exchange).endOfPermits();
        Object value = result.getReturnValue();
        if (end == null || !(value instanceof Mono || value instanceof Flux)) {
            return result;
        }
        Object work = value instanceof Mono<?> mono ? mono.takeUntilOther(end) : ((Flux<?>) value).takeUntilOther(end);
        HandlerResult cancelled =
                new HandlerResult(result.getHandler(), work, result.getReturnTypeSource(), result.getBindingContext());
        DispatchExceptionHandler onError = result.getExceptionHandler();
        return onError == null ? cancelled : cancelled.setExceptionHandler(onError);
    }

    private @Nullable Mono<Void> endOfPermits() {
        return end != null && verdicts.isHolding() ? end.end() : null;
    }

    /** Records a verdict, which is reported when the response is committed, and returns why it denies the request. */
    private Optional<Problem> record(ServerWebExchange exchange, Verdict verdict, RateLimitResponses responses) {
        if (!verdict.dependsOnResponse()) {
            return verdict.problem();
        }
        if (!isReported) {
            isReported = true;
            ServerHttpResponse response = exchange.getResponse();
            response.beforeCommit(() -> {
                verdicts.write(responses.headers(), new ExchangeFields(response.getHeaders()));
                HttpStatusCode status = response.getStatusCode();
                return verdicts.refund(status == null ? OK : status.value());
            });
        }
        return verdicts.note(verdict);
    }

    /**
     * Settles the real costs at the end of the response: when it completes, fails or is cancelled.
     *
     * @param response the rest of the chain of filters
     */
    static Mono<Void> settleAtEnd(ServerWebExchange exchange, Mono<Void> response) {
        LimitedExchange limited = of(exchange);
        limited.isSettledAtEnd = true;
        Mono<Void> settlement = limited.settlement(exchange);
        return response.onErrorResume(error -> settleAndFail(exchange, settlement, error))
                .then(settlement)
                // After the handler was cancelled, because it may set the cost then.
                .doFinally(end -> {
                    if (end == SignalType.CANCEL) {
                        settlement.subscribe();
                    }
                });
    }

    /**
     * Returns the settlement of the real costs at the end of the chain of filters. Call it before the response: after
     * its end, the request has no channel.
     */
    private Mono<Void> settlement(ServerWebExchange exchange) {
        ExchangeThread thread = Objects.requireNonNull(this.thread, "a verdict comes first");
        Mono<Void> settlement = Mono.defer(() -> settleOn(thread));
        Channel channel = isUpgrade(exchange) ? NettyConnection.of(exchange.getRequest()) : null;
        ResponseEnd end = channel == null ? null : NettyConnection.end(exchange.getRequest());
        if (channel == null || end == null) {
            return settlement;
        }
        // The chain of a WebSocket ends with the handshake, so its costs are settled when it is closed.
        end.whenEnded(() -> verdicts.settle().subscribe());
        return Mono.defer(() -> NettyConnection.isWebSocket(channel) ? Mono.empty() : settlement);
    }

    /** Settles, and then continues on the thread of the exchange, on which the response ends. */
    private Mono<Void> settleOn(ExchangeThread thread) {
        return verdicts.hasCosts() ? verdicts.settle().then(Mono.defer(() -> thread.run(Mono::empty))) : Mono.empty();
    }

    /** Returns whether the request has the header of an upgrade to WebSocket, which any client can send. */
    private static boolean isUpgrade(ServerWebExchange exchange) {
        return "websocket".equalsIgnoreCase(exchange.getRequest().getHeaders().getUpgrade());
    }

    private static Mono<Void> settleAndFail(ServerWebExchange exchange, Mono<Void> settlement, Throwable error) {
        if (exchange.getResponse().isCommitted()) {
            return settlement.then(Mono.error(error));
        }
        // After the refund for the status of the response to this error.
        exchange.getResponse().beforeCommit(() -> settlement);
        return Mono.error(error);
    }

    /**
     * Settles the real costs of a handler, if no filter will see the end of its response. With a server that does not
     * report that either, they are settled, and permits are released, when the response begins.
     */
    static void settleAfterHandler(ServerWebExchange exchange) {
        LimitedExchange limited = of(exchange);
        if (limited.isSettledAtEnd) {
            return;
        }
        limited.isSettledAtEnd = true;
        RequestVerdicts verdicts = limited.verdicts;
        Runnable settle = () -> verdicts.settle().subscribe();
        ResponseEnd end = NettyConnection.end(exchange.getRequest());
        if (limited.servlet != null) {
            limited.servlet.end().subscribe(null, null, settle);
        } else if (end != null) {
            end.whenEnded(settle);
        } else {
            exchange.getResponse().beforeCommit(() -> verdicts.settle().doOnTerminate(verdicts::release));
        }
    }

    /**
     * Releases permits of concurrency limits when the chain of filters ends. With Reactor Netty this is not needed: it
     * reports the end of each response.
     *
     * @param chain the decision and the rest of the chain
     */
    static Mono<Void> releaseAtEnd(ServerWebExchange exchange, Mono<Void> chain) {
        LimitedExchange limited = of(exchange);
        limited.watchEnd(exchange);
        if (limited.end != null) {
            return chain;
        }
        ServletConnection servlet = limited.servlet;
        // When a servlet container ends the response, Spring does not always end the chain, so it is cancelled here.
        Mono<Void> untilEnd = servlet == null ? chain : chain.takeUntilOther(servlet.end());
        return untilEnd.doFinally(end -> {
            if (!limited.mayBeRetried(exchange, end)) {
                limited.verdicts.release();
            }
        });
    }

    /**
     * Returns whether another filter may subscribe to the chain again. The rules then do not decide again, so the
     * request keeps its permits, until the servlet container reports the end of the response.
     */
    private boolean mayBeRetried(ServerWebExchange exchange, SignalType end) {
        return servlet != null
                && end != SignalType.ON_COMPLETE
                && !exchange.getResponse().isCommitted();
    }

    private static LimitedExchange of(ServerWebExchange exchange) {
        return (LimitedExchange) exchange.getAttributes().computeIfAbsent(ATTRIBUTE, name -> new LimitedExchange());
    }

    /** The header fields of a Spring response. */
    private record ExchangeFields(HttpHeaders headers) implements ResponseFields {

        @Override
        public List<String> get(String name) {
            return headers.getOrEmpty(name);
        }

        @Override
        public void set(String name, String value) {
            headers.set(name, value);
        }
    }
}
