package io.github.spillgate.examples.benchmark.contender;

import java.time.Duration;
import reactor.netty.http.client.HttpClient;
import reactor.netty.resources.ConnectionProvider;

/** A client of an HTTP server in this process, which sends one request for each decision. The same for all servers. */
final class Requests implements AutoCloseable {

    /** The header with the key of a request. */
    static final String KEY = "X-Api-Key";

    private static final int CONNECTIONS = 256;
    private static final int OK = 200;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final ConnectionProvider connections = ConnectionProvider.create("benchmark", CONNECTIONS);
    private final HttpClient client;

    Requests(int port) {
        client = HttpClient.create(connections).baseUrl("http://127.0.0.1:" + port);
    }

    void decide(String key, Answer answer) {
        AnswerSubscriber.of(
                client.headers(headers -> headers.set(KEY, key))
                        .get()
                        .uri("/")
                        .responseSingle((response, body) ->
                                body.thenReturn(response.status().code())),
                answer,
                Requests::deliver);
    }

    private static void deliver(int status, Answer receiver) {
        if (status == OK || status == TOO_MANY_REQUESTS) {
            receiver.decided(status == OK);
        } else {
            receiver.failed(new IllegalStateException("the server has answered with " + status));
        }
    }

    @Override
    public void close() {
        connections.disposeLater().block(TIMEOUT);
    }
}
