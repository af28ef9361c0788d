package io.github.spillgate.examples.grpc;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/** A service of strings on a real server with one thread, and its clients. */
public final class Talk implements AutoCloseable {

    /** The tenant, which an interceptor in front of the limiter adds to the context. */
    public static final Context.Key<String> TENANT = Context.key("tenant");

    /** The message with which a client makes a handler fail. */
    public static final String FAIL = "fail";

    private static final MethodDescriptor<String, String> FREE = method("Free", MethodDescriptor.MethodType.UNARY);

    private final AtomicInteger read = new AtomicInteger();
    private final List<String> started = new CopyOnWriteArrayList<>();
    private final List<String> handled = new CopyOnWriteArrayList<>();
    private final List<Throwable> ended = new CopyOnWriteArrayList<>();
    private final List<ManagedChannel> channels = new CopyOnWriteArrayList<>();
    private final ForkJoinPool executor;
    private final MethodDescriptor<String, String> say = method("Say", MethodDescriptor.MethodType.UNARY);
    private final MethodDescriptor<String, String> echo = method("Echo", MethodDescriptor.MethodType.BIDI_STREAMING);
    private final Server server;

    /** Starts the service with one free method; {@code limiting} limits the others. */
    public Talk(ForkJoinPool executor, UnaryOperator<ServerServiceDefinition> limiting) {
        this.executor = executor;
        ServerServiceDefinition limited = ServerServiceDefinition.builder("Talk")
                .addMethod(counting(say), ServerCalls.asyncUnaryCall(this::say))
                .addMethod(counting(echo), ServerCalls.asyncBidiStreamingCall(this::echo))
                .build();
        ServerServiceDefinition free = ServerServiceDefinition.builder("Open")
                .addMethod(FREE, ServerCalls.asyncUnaryCall((question, answers) -> {
                    answers.onNext("free");
                    answers.onCompleted();
                }))
                .build();
        try {
            server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                    .executor(executor)
                    .addService(limiting.apply(limited))
                    .addService(free)
                    .build()
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns how many messages of limited streams and calls the server has read. */
    public int read() {
        return read.get();
    }

    /** Returns the messages that handlers got, each followed by its tenant. */
    public List<String> handled() {
        return handled;
    }

    /** Returns the tenants of the streams that were opened. */
    public List<String> started() {
        return started;
    }

    /** Returns the errors with which handlers of streams were cancelled. */
    public List<Throwable> ended() {
        return ended;
    }

    /** Opens a client. */
    public Channel client() {
        return client(settings -> {});
    }

    /** Opens a client with its own settings. */
    public Channel client(Consumer<ManagedChannelBuilder<?>> settings) {
        ManagedChannelBuilder<?> builder =
                Grpc.newChannelBuilderForAddress("127.0.0.1", server.getPort(), InsecureChannelCredentials.create());
        settings.accept(builder);
        ManagedChannel channel = builder.build();
        channels.add(channel);
        return channel;
    }

    /** Sends a call, and waits for the response. */
    public String say(Channel client, String question) {
        return ClientCalls.blockingUnaryCall(client, say, withDeadline(), question);
    }

    /** Calls the method that is not limited. */
    public String free(Channel client) {
        return ClientCalls.blockingUnaryCall(client, FREE, withDeadline(), "");
    }

    private static CallOptions withDeadline() {
        return CallOptions.DEFAULT.withDeadlineAfter(30, TimeUnit.SECONDS);
    }

    /** Sends a call without waiting for the response. */
    public ClientCall<String, String> sayLater(Channel client, StreamObserver<String> answers) {
        return sayLater(client, CallOptions.DEFAULT, answers);
    }

    /** Sends a call with these options without waiting for the response. */
    public ClientCall<String, String> sayLater(Channel client, CallOptions options, StreamObserver<String> answers) {
        ClientCall<String, String> call = client.newCall(say, options);
        ClientCalls.asyncUnaryCall(call, "later", answers);
        return call;
    }

    /** Opens a stream. */
    public ClientCall<String, String> stream(Channel client) {
        return client.newCall(echo, CallOptions.DEFAULT.withDeadlineAfter(60, TimeUnit.SECONDS));
    }

    private void say(String question, StreamObserver<String> answers) {
        handled.add(question + TENANT.get());
        if (question.equals(FAIL)) {
            throw new IllegalStateException("secret");
        }
        answers.onNext(question);
        answers.onCompleted();
    }

    private StreamObserver<String> echo(StreamObserver<String> answers) {
        started.add(TENANT.get());
        return new StreamObserver<>() {
            @Override
            public void onNext(String message) {
                handled.add(message + TENANT.get());
                if (message.equals(FAIL)) {
                    throw new IllegalStateException("secret");
                }
                answers.onNext(message);
            }

            @Override
            public void onError(Throwable error) {
                ended.add(error);
            }

            @Override
            public void onCompleted() {
                answers.onCompleted();
            }
        };
    }

    private MethodDescriptor<String, String> counting(MethodDescriptor<String, String> method) {
        return method.toBuilder()
                .setRequestMarshaller(new Text(read::incrementAndGet))
                .build();
    }

    private static MethodDescriptor<String, String> method(String name, MethodDescriptor.MethodType type) {
        return MethodDescriptor.<String, String>newBuilder()
                .setType(type)
                .setFullMethodName((name.equals("Free") ? "Open/" : "Talk/") + name)
                .setRequestMarshaller(new Text(() -> {}))
                .setResponseMarshaller(new Text(() -> {}))
                .build();
    }

    /** Returns a trailer of a failed call. */
    public static String trailer(StatusRuntimeException failed, String name) {
        Metadata trailers = failed.getTrailers();
        return trailers == null ? null : trailers.get(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
    }

    @Override
    public void close() {
        try {
            for (ManagedChannel channel : channels) {
                channel.shutdownNow().awaitTermination(30, TimeUnit.SECONDS);
            }
            server.shutdownNow().awaitTermination(30, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        executor.shutdown();
    }

    private record Text(Runnable read) implements MethodDescriptor.Marshaller<String> {

        @Override
        public InputStream stream(String value) {
            return new ByteArrayInputStream(value.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public String parse(InputStream stream) {
            read.run();
            try {
                return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
