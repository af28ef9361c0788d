package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Problem;
import io.github.spillgate.http.ResponseFields;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.Verdicts;
import io.netty.channel.Channel;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.core.publisher.SignalType;

/** The verdicts on an exchange, for all web filters, handler filters and annotations that limit it. */
final class LimitedExchange {

    private static final String ATTRIBUTE = LimitedExchange.class.getName();
    private static final int OK = 200;

    private final Verdicts verdicts = new Verdicts();
    private boolean isReported;
    private boolean isSettledAtEnd;
    private boolean isWatched;

    /** The connection of a request that a servlet container serves. */
    private @Nullable ServletConnection servlet;

    private LimitedExchange() {}

    static List<Decision> decisions(ServerWebExchange exchange) {
        LimitedExchange limited = exchange.getAttribute(ATTRIBUTE);
        return limited == null ? List.of() : limited.verdicts.decisions();
    }

    static Verdicts verdicts(ServerWebExchange exchange) {
        return of(exchange).verdicts;
    }

    /**
     * Decides on an exchange, and records the verdict for the response.
     *
     * @param verdict the verdict of the rules
     * @param responses the header fields that report it
     * @return the reason for a denial, empty if the request is allowed; emitted on the thread of the exchange
     */
    static Mono<Optional<Problem>> decide(
            ServerWebExchange exchange, Mono<Verdict> verdict, RateLimitResponses responses) {
        return Mono.defer(() -> {
            LimitedExchange limited = of(exchange);
            limited.watchEnd(exchange);
            // Before the decision, which may change the thread.
            ExchangeThread thread = ExchangeThread.of(exchange);
            return verdict.flatMap(made -> thread.run(() -> Mono.just(limited.record(exchange, made, responses))));
        });
    }

    /**
     * Lets the exchange release permits of concurrency limits when its server has ended the response. Reactor Netty
     * reports that also for an upgrade to WebSocket, for which the chain of filters ends with the handshake.
     */
    private void watchEnd(ServerWebExchange exchange) {
        if (isWatched) {
            return;
        }
        isWatched = true;
        Consumer<Runnable> end = NettyConnection.end(exchange.getRequest());
        if (end == null) {
            servlet = ServletConnection.of(exchange.getRequest());
            end = servlet == null ? null : servlet::whenEnded;
        }
        if (end != null) {
            Consumer<Runnable> watch = end;
            verdicts.whenHolding(() -> watch.accept(verdicts::release));
        }
    }

    /**
     * Releases permits when the chain of filters ends, unless Reactor Netty reports the end of the response. A servlet
     * container that ends the response cancels the chain first: Spring does not always do that. Another filter may
     * subscribe again to a chain without a response, which then has no new verdict; so the container reports its end.
     */
    static Mono<Void> releaseAtEnd(ServerWebExchange exchange, Mono<Void> limited) {
        if (NettyConnection.of(exchange.getRequest()) != null) {
            return limited;
        }
        LimitedExchange held = of(exchange);
        held.watchEnd(exchange);
        Mono<Void> response = held.servlet == null ? limited : limited.takeUntilOther(held.servlet.end());
        return response.doFinally(end -> {
            boolean mayRetry = held.servlet != null
                    && end != SignalType.ON_COMPLETE
                    && !exchange.getResponse().isCommitted();
            if (!mayRetry) {
                held.verdicts.release();
            }
        });
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

    /** Settles the real costs when the response has ended, with an error, or because the client has disconnected. */
    static Mono<Void> settleAtEnd(ServerWebExchange exchange, Mono<Void> response) {
        LimitedExchange limited = of(exchange);
        limited.isSettledAtEnd = true;
        // The thread is looked up here, because the request has no channel any more when its response has ended.
        Mono<Void> settlement = limited.settle(ExchangeThread.of(exchange));
        Channel channel = asksForWebSocket(exchange) ? NettyConnection.of(exchange.getRequest()) : null;
        Mono<Void> settle = channel == null
                ? settlement
                : Mono.defer(() -> NettyConnection.isWebSocket(channel) ? Mono.empty() : settlement);
        Consumer<Runnable> close = channel == null ? null : NettyConnection.end(exchange.getRequest());
        if (close != null) {
            // The chain of filters ends with the handshake. Without one, the cost is settled by then.
            close.accept(() -> limited.verdicts.settle().subscribe());
        }
        return response.onErrorResume(error -> {
                    Mono<Void> failed = Mono.error(error);
                    if (exchange.getResponse().isCommitted()) {
                        return settle.then(failed);
                    }
                    // After the refund for the status of the response to this error.
                    exchange.getResponse().beforeCommit(() -> settle);
                    return failed;
                })
                .then(settle)
                // After the handler was cancelled, because it may set the cost then.
                .doFinally(end -> {
                    if (end == SignalType.CANCEL) {
                        settle.subscribe();
                    }
                });
    }

    /** Returns whether the request has the header of a handshake, which any client can send. */
    private static boolean asksForWebSocket(ServerWebExchange exchange) {
        return "websocket".equalsIgnoreCase(exchange.getRequest().getHeaders().getUpgrade());
    }

    /** Settles on the thread of the exchange, on which the response ends. */
    private Mono<Void> settle(ExchangeThread thread) {
        return Mono.defer(() ->
                verdicts.hasCosts() ? verdicts.settle().then(Mono.defer(() -> thread.run(Mono::empty))) : Mono.empty());
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
        Verdicts verdicts = limited.verdicts;
        Runnable settle = () -> verdicts.settle().subscribe();
        Consumer<Runnable> end = NettyConnection.end(exchange.getRequest());
        if (limited.servlet != null) {
            limited.servlet.end().subscribe(null, null, settle);
        } else if (end != null) {
            end.accept(settle);
        } else {
            exchange.getResponse().beforeCommit(() -> verdicts.settle().doOnTerminate(verdicts::release));
        }
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
