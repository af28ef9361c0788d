package io.github.spillgate.webflux;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.reactive.config.EnableWebFlux;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** A WebFlux service without Spring Boot, on a real server and a random port, and a client of it that is not Spring's. */
final class Service implements AutoCloseable {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final AnnotationConfigApplicationContext context;
    private final DisposableServer server;
    private final HttpClient client = HttpClient.newHttpClient();

    private Service(AnnotationConfigApplicationContext context, DisposableServer server) {
        this.context = context;
        this.server = server;
    }

    /** Starts a service of these beans. */
    static Service start(Consumer<AnnotationConfigApplicationContext> beans) {
        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        context.register(Web.class);
        beans.accept(context);
        context.refresh();
        DisposableServer server = HttpServer.create()
                .host("127.0.0.1")
                .port(0)
                .handle(new ReactorHttpHandlerAdapter(
                        WebHttpHandlerBuilder.applicationContext(context).build()))
                .bindNow();
        return new Service(context, server);
    }

    <T> T bean(Class<T> type) {
        return context.getBean(type);
    }

    URI uri(String path) {
        return URI.create("http://127.0.0.1:" + server.port() + path);
    }

    /** A request, to be sent with {@link #send}; header fields are a name and a value each. */
    HttpRequest.Builder request(String path, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(uri(path)).timeout(LONG);
        return headers.length == 0 ? request : request.headers(headers);
    }

    HttpResponse<String> get(String path, String... headers) {
        return send(request(path, headers).GET());
    }

    HttpResponse<String> post(String path, String body, String... headers) {
        return send(request(path, headers).POST(BodyPublishers.ofString(body)));
    }

    HttpResponse<String> send(HttpRequest.Builder request) {
        try {
            return client.send(request.build(), BodyHandlers.ofString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /** Asks for a path that no client would send, and returns how the response begins. */
    String statusLine(String path) {
        return answerTo("GET " + path + " HTTP/1.1", "Host: localhost");
    }

    /** Sends lines that no client would, and returns how the response begins. */
    String answerTo(String... lines) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.port())) {
            socket.setSoTimeout((int) LONG.toMillis());
            socket.getOutputStream()
                    .write((String.join("\r\n", lines) + "\r\nConnection: close\r\n\r\n")
                            .getBytes(StandardCharsets.ISO_8859_1));
            return String.valueOf(
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.ISO_8859_1))
                            .readLine());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    CompletableFuture<HttpResponse<String>> sendLater(HttpRequest.Builder request) {
        return client.sendAsync(request.build(), BodyHandlers.ofString());
    }

    @Override
    public void close() {
        server.disposeNow(LONG);
        context.close();
    }

    @Configuration
    @EnableWebFlux
    static class Web {}
}
