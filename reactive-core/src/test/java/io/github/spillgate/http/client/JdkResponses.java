package io.github.spillgate.http.client;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Requests with the client of the JDK, which has read the body when it emits a response. */
class JdkResponses implements ResponseAccess<HttpResponse<Void>> {

    static final JdkResponses ACCESS = new JdkResponses();

    private static final HttpClient CLIENT =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    static Mono<HttpResponse<Void>> get(URI uri) {
        return send(HttpRequest.newBuilder(uri));
    }

    static Mono<HttpResponse<Void>> post(URI uri, String body) {
        return send(HttpRequest.newBuilder(uri).POST(BodyPublishers.ofString(body)));
    }

    private static Mono<HttpResponse<Void>> send(HttpRequest.Builder request) {
        HttpRequest built = request.timeout(Duration.ofSeconds(10)).build();
        // The client of the JDK may block where it sends.
        return Mono.fromFuture(() -> CLIENT.sendAsync(built, BodyHandlers.discarding()))
                .subscribeOn(Schedulers.boundedElastic());
    }

    @Override
    public int status(HttpResponse<Void> response) {
        return response.statusCode();
    }

    @Override
    public List<String> values(HttpResponse<Void> response, String field) {
        return response.headers().allValues(field);
    }

    @Override
    public Mono<Void> release(HttpResponse<Void> response) {
        return Mono.empty();
    }

    @Override
    public HttpResponse<Void> whileHolding(HttpResponse<Void> response, Mono<HttpResponse<Void>> lost, Runnable ended) {
        ended.run();
        return response;
    }
}
