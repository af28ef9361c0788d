package io.github.spillgate.redis.lane;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.ConnectionBuilder;
import io.lettuce.core.ConnectionEvents;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.event.DefaultEventPublisherOptions;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.EventLoopGroupProvider;
import io.lettuce.core.resource.Transports;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.resolver.AddressResolver;
import io.netty.util.concurrent.EventExecutorGroup;
import io.netty.util.concurrent.Future;
import io.netty.util.concurrent.ImmediateEventExecutor;
import java.net.SocketAddress;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** A client with all its connections on one event loop, and the resources and options of another client. */
final class LoopClient extends RedisClient {
    // Design notes.
    //
    // Lettuce chooses the class of its channels once for the process. A loop of another transport rejects them, for
    // example the NIO loops of Vert.x if Lettuce finds epoll. So each connection gets a bootstrap for its loop.
    //
    // Host names are resolved before that, on a thread that may block: the resolver of the JDK blocks, and the one of
    // Netty needs a loop of Lettuce's transport.

    /** The options of the transports that Netty has beside NIO begin with the name of their package. */
    private static final String NATIVE_OPTIONS = "io.netty.channel.";

    /** The resources of the other client. */
    private final ClientResources original;

    private final EventLoop loop;

    /** The type of channels that the loop accepts. */
    private final Class<? extends Channel> channelType;

    LoopClient(ClientResources original, ClientOptions options, EventLoop loop, Class<? extends Channel> channelType) {
        super(on(loop, original), new RedisURI());
        this.original = original;
        this.loop = loop;
        this.channelType = channelType;
        setOptions(options);
    }

    private static ClientResources on(EventLoop loop, ClientResources original) {
        return ClientResources.builder()
                .eventLoopGroupProvider(new SingleLoop(loop))
                .eventExecutorGroup(original.eventExecutorGroup())
                .timer(original.timer())
                .eventBus(original.eventBus())
                .commandLatencyRecorder(original.commandLatencyRecorder())
                // The original resources publish what is recorded.
                .commandLatencyPublisherOptions(DefaultEventPublisherOptions.disabled())
                .addressResolverGroup(original.addressResolverGroup())
                .socketAddressResolver(original.socketAddressResolver())
                .nettyCustomizer(original.nettyCustomizer())
                .tracing(original.tracing())
                .build();
    }

    @Override
    protected void connectionBuilder(
            Mono<SocketAddress> address, ConnectionBuilder builder, ConnectionEvents events, RedisURI uri) {
        super.connectionBuilder(address.flatMap(this::resolved), builder, events, uri);
        Bootstrap ours = new Bootstrap().group(loop).channel(channelType).disableResolver();
        boolean hasItsTransport = channelType == Transports.socketChannelClass();
        builder.bootstrap().config().options().forEach((option, value) -> {
            if (hasItsTransport || !option.name().startsWith(NATIVE_OPTIONS)) {
                set(ours, option, value);
            }
        });
        builder.bootstrap(ours);
    }

    @SuppressWarnings("unchecked") // an option of another bootstrap, with its value
    private static <T> void set(Bootstrap bootstrap, ChannelOption<T> option, Object value) {
        bootstrap.option(option, (T) value);
    }

    private Mono<SocketAddress> resolved(SocketAddress address) {
        return Mono.fromCallable(() -> resolve(address)).subscribeOn(Schedulers.boundedElastic());
    }

    @SuppressWarnings("unchecked") // Netty asks a resolver by isSupported() too
    private SocketAddress resolve(SocketAddress address) throws Exception {
        EventLoopGroupProvider provider = original.eventLoopGroupProvider();
        EventLoopGroup loops = provider.allocate(Transports.eventLoopGroupClass());
        try {
            AddressResolver<SocketAddress> resolver = (AddressResolver<SocketAddress>)
                    original.addressResolverGroup().getResolver(loops.next());
            return !resolver.isSupported(address) || resolver.isResolved(address)
                    ? address
                    : resolver.resolve(address).get(Lane.LONGEST_ATTEMPT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } catch (TimeoutException e) {
            throw new TimeoutException("the address of " + address + " was not resolved in time");
        } finally {
            Future<Boolean> unused = provider.release(loops, 0, 0, TimeUnit.SECONDS);
        }
    }

    /** Provides one event loop, which belongs to the application. */
    private record SingleLoop(EventLoop loop) implements EventLoopGroupProvider {

        @Override
        @SuppressWarnings("unchecked") // Lettuce uses any type that it asks for as an EventLoopGroup
        public <T extends EventLoopGroup> T allocate(Class<T> type) {
            return (T) loop;
        }

        @Override
        public int threadPoolSize() {
            return 1;
        }

        @Override
        public Future<Boolean> release(EventExecutorGroup group, long quietPeriod, long timeout, TimeUnit unit) {
            return ImmediateEventExecutor.INSTANCE.newSucceededFuture(true);
        }

        @Override
        public Future<Boolean> shutdown(long quietPeriod, long timeout, TimeUnit unit) {
            return ImmediateEventExecutor.INSTANCE.newSucceededFuture(true);
        }
    }
}
