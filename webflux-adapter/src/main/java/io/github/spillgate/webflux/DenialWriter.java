package io.github.spillgate.webflux;

import io.github.spillgate.http.Problem;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** Writes the response of a request that was denied. The header fields that tell of limits are written besides. */
@FunctionalInterface
public interface DenialWriter {

    /**
     * Writes the response; the body of the request is not read.
     *
     * @param exchange the exchange, of which nothing is written yet
     * @param problem why it was denied
     * @return completes when the response is written
     */
    Mono<Void> write(ServerWebExchange exchange, Problem problem);

    /**
     * Writes the problem as JSON, with its status.
     *
     * @return what does so
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
