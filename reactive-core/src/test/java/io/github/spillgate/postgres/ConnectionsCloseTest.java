package io.github.spillgate.postgres;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.testkit.PostgresForTests;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ValidationDepth;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** When connections are closed, and what does not wait for it. */
class ConnectionsCloseTest {

    private static final Duration LONG = Duration.ofSeconds(20);

    @Test
    void aServerThatDoesNotReplyDoesNotDelayTheEnd() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Connections connections = connections(Mono.from(
                    PostgresUris.parse("r2dbc:postgresql://ann@127.0.0.1:" + silent.getLocalPort() + "/orders")
                            .create()));
            CompletableFuture<String> statement =
                    connections.run(connection -> Mono.just("done")).toFuture();
            try (Socket connecting = silent.accept()) {
                assertThat(connecting.isConnected()).isTrue();
                connections.close().block(LONG);
            }
            assertClosed(statement);
        }
    }

    @Test
    void aConnectionThatIsOpenAfterTheEndIsClosed() {
        Sinks.One<Connection> opening = Sinks.one();
        Connections connections = connections(opening.asMono());
        CompletableFuture<String> statement =
                connections.run(connection -> Mono.just("done")).toFuture();
        connections.close().block(LONG);
        assertClosed(statement);
        Connection late = requireNonNull(
                Mono.<Connection>from(PostgresForTests.shared().factory().create())
                        .block());
        opening.tryEmitValue(late);
        await().until(() -> !Mono.from(late.validate(ValidationDepth.LOCAL)).block());
        assertClosed(connections.run(connection -> Mono.just("done")).toFuture());
    }

    /** The driver may pass on messages on that thread, and does not close a connection until that ends. */
    @Test
    void aThreadOnWhichAStatementFailsClosesNoConnection() {
        Connection open = requireNonNull(
                Mono.<Connection>from(PostgresForTests.shared().factory().create())
                        .block());
        CompletableFuture<Thread> closedOn = new CompletableFuture<>();
        Connection observed = (Connection) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {Connection.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("close")) {
                        closedOn.complete(Thread.currentThread());
                    }
                    return method.invoke(open, arguments);
                });
        CompletableFuture<Thread> failedOn = new CompletableFuture<>();
        CompletableFuture<String> statement = connections(Mono.just(observed))
                .run(connection -> Mono.<String>error(() -> {
                    failedOn.complete(Thread.currentThread());
                    return new IllegalStateException("it fails");
                }))
                .toFuture();
        assertThat(statement).failsWithin(LONG);
        assertThat(closedOn).succeedsWithin(LONG).isNotSameAs(failedOn.join());
        await().until(() -> !Mono.from(open.validate(ValidationDepth.LOCAL)).block());
    }

    private static Connections connections(Mono<? extends Connection> open) {
        return new Connections(1, open.cast(Connection.class), Duration.ofMinutes(5));
    }

    private static void assertClosed(CompletableFuture<String> statement) {
        assertThat(statement)
                .failsWithin(LONG)
                .withThrowableOfType(ExecutionException.class)
                .havingCause()
                .is(kind(Kind.UNAVAILABLE))
                .withMessageContaining("the store is closed");
    }
}
