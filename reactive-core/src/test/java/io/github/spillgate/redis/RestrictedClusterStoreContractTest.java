package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.internal.HostAndPort;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DnsResolvers;
import io.lettuce.core.resource.MappingSocketAddressResolver;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * The contract in a cluster with nodes that refuse all commands except those that the documentation requires, and PING,
 * which Lettuce sends. They refuse scripts without a key too. Each node is behind a proxy.
 */
class RestrictedClusterStoreContractTest extends LimitStoreContract {

    private static final Duration LONG = Duration.ofSeconds(30);

    private static final Set<String> NEEDED = Set.of("EVAL", "EVALSHA", "CLUSTER", "ASKING", "PING");

    private static final AtomicInteger REFUSED_WITHOUT_KEY = new AtomicInteger();

    private static Map<Integer, CommandProxy> proxies = Map.of();
    private static @Nullable ClientResources resources;
    private static @Nullable RedisClusterClient client;
    private static @Nullable RedisStore store;

    @BeforeAll
    static void connect() {
        RedisClusterForTests cluster = RedisClusterForTests.shared();
        proxies = cluster.nodes().stream()
                .map(node -> node.uri().getPort())
                .collect(Collectors.toMap(Function.identity(), CommandProxy::new));
        proxies.values().forEach(proxy -> proxy.answerWords(RestrictedClusterStoreContractTest::answer));
        resources = ClientResources.builder()
                .socketAddressResolver(MappingSocketAddressResolver.create(
                        DnsResolvers.UNRESOLVED,
                        node -> HostAndPort.of(
                                "127.0.0.1", proxies.get(node.getPort()).port())))
                .build();
        client = RedisClusterClient.create(resources, cluster.uris());
        store = RedisStore.builder(client)
                .nodes(cluster.uris())
                .longestPeek(Duration.ofMinutes(1))
                .build();
    }

    private static String answer(List<String> words) {
        String command = words.get(0);
        if (!NEEDED.contains(command)) {
            return "ERR unknown command 'x'";
        }
        if (command.startsWith("EVAL") && words.get(2).equals("0")) {
            REFUSED_WITHOUT_KEY.incrementAndGet();
            return "ERR a script without a key belongs to no node";
        }
        return CommandProxy.PASS;
    }

    @Test
    void eachNodeIsPreparedWithAKeyOfItsOwn() {
        // The nodes are asked for their slots on connections that know none.
        store.prepare("").retry(3).block(LONG);
        int before = REFUSED_WITHOUT_KEY.get();
        store.prepare("").retry(3).block(LONG);
        assertThat(REFUSED_WITHOUT_KEY).hasValue(before);
    }

    @AfterAll
    static void disconnect() {
        assertThat(proxies.values())
                .allSatisfy(proxy -> assertThat(proxy.calls("EVALSHA")).isPositive());
        store.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
        resources.shutdown(0, 1, TimeUnit.SECONDS).awaitUninterruptibly();
        proxies.values().forEach(CommandProxy::close);
    }

    @Override
    protected LimitStore store() {
        return store;
    }
}
