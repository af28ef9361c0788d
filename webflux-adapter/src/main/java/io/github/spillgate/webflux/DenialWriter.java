package io.github.spillgate.webflux;

import io.github.spillgate.http.response.Problem;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** A writer of the response to a denied request. The rate limit header fields are written separately. */
@FunctionalInterface
public interface DenialWriter {

    /**
     * Writes the response. The body of the request is not read.
     *
     * @param exchange the exchange; nothing of its response is written yet
     * @param problem the reason for the denial
     * @return completes when the response is written
     */
    Mono<Void> write(ServerWebExchange exchange, Problem problem);

    /**
     * Returns a writer of the problem as JSON, with its status.
     *
     * @return the writer
     */
    static DenialWriter ofProblem() {
        return (exchange, problem) -> {
            ServerHttpResponse response = exchange.getResponse();
            response.setStatusCode(HttpStatusCode.valueOf(problem.status()));
            HttpHeaders headers = response.getHeaders();
            problem.writeHeaders(headers::set);
            byte[] body = problem.body();
            headers.setContentLength(body.length);
            return response.writeWith(
                    Mono.fromSupplier(() -> response.bufferFactory().wrap(body)).cast(DataBuffer.class));
        };
    }
}
