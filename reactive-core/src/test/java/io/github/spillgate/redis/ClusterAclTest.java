package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Flux;

/** The user that the documentation names for a cluster is enough for all that the store does there. */
class ClusterAclTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    @Test
    void theDocumentedUserHasAllRightsOfTheStore() throws IOException {
        assertDocumentedUserIsEnough(RedisClusterForTests.shared());
    }

    @Thorough
    @ParameterizedTest(allowZeroInvocations = true)
    @MethodSource("io.github.spillgate.redis.OtherServersTest#binaries")
    void theDocumentedUserHasAllRightsOfTheStore(RedisBinary binary) throws IOException {
        try (RedisClusterForTests cluster = RedisClusterForTests.start(binary, 3, 0)) {
            assertDocumentedUserIsEnough(cluster);
        }
    }

    private static void assertDocumentedUserIsEnough(RedisClusterForTests cluster) throws IOException {
        String rights = AclTest.documentedUsers().stream()
                .filter(each -> each.contains("cluster"))
                .findFirst()
                .orElseThrow();
        allow(cluster, rights);
        // Else connections of other tests could be taken for ours.
        cluster.nodes()
                .forEach(node ->
                        node.commands().clientKill(KillArgs.Builder.typeNormal().skipme()));
        List<RedisURI> uris = cluster.uris().stream()
                .map(uri -> RedisURI.builder(uri)
                        .withAuthentication("app", "password".toCharArray())
                        .build())
                .toList();
        RedisClusterClient client = RedisClusterClient.create(uris);
        RedisStore store = RedisStore.builder(client).nodes(uris).build();
        RateLimiter limiter = Unprotected.limiter(store, Limit.perHour(1_000));

        Charge[] charges = {Charge.of("a"), Charge.of("b"), Charge.of("c")};
        Decision decision = limiter.tryAcquire(charges).block(LONG);
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.source()).isEqualTo(Source.REDIS);
        limiter.refund(decision).block(LONG);
        limiter.refund(Charge.of("a", 1)).block(LONG);
        limiter.reset("a").block(LONG);
        assertThat(limiter.peek(charges).block(LONG).limits())
                .extracting(Decision.Usage::used)
                .containsOnly(0L);

        assertThat(cluster.nodes())
                .allSatisfy(node -> assertThat(node.commands().clientList().lines())
                        .filteredOn(line -> line.contains("cmd=evalsha"))
                        .isNotEmpty()
                        .allMatch(line -> line.contains("user=app")));

        // A new count in a slot that is being migrated.
        int slot = SlotHash.getSlot("moved");
        RedisNode target = cluster.nodes().stream()
                .filter(node -> node != cluster.primaryOf(slot))
                .findFirst()
                .orElseThrow();
        cluster.beginMigration(slot, target);
        assertThat(limiter.tryAcquire("moved").block(LONG).isAllowed()).isTrue();
        allow(cluster, rights.replace(" +asking", ""));
        assertThat(limiter.tryAcquire("moved")
                        .onErrorResume(
                                LimitStoreException.class,
                                e -> Flux.<Decision>empty().next())
                        .block(LONG))
                .as("without +asking")
                .isNull();
        allow(cluster, rights);
        cluster.moveKeys(slot, target);
        cluster.endMigration(slot, target);
        assertThat(limiter.tryAcquire("moved").block(LONG).limits().get(0).used())
                .isEqualTo(2);

        assertThat(Flux.range(0, 100)
                        .flatMap(i -> limiter.tryAcquire("key-" + i))
                        .all(Decision::isAllowed)
                        .block(LONG))
                .isTrue();
        store.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    /** Redis 6.2 knows no rights for parts of CLUSTER, as the page says. */
    private static void allow(RedisClusterForTests cluster, String rights) {
        for (RedisNode node : cluster.nodes()) {
            boolean isOld = node.commands().info("server").contains("redis_version:6.");
            String all = isOld ? rights.replace("+cluster|slots", "+cluster") : rights;
            CommandArgs<String, String> user = new CommandArgs<>(StringCodec.UTF8);
            List.of(("SETUSER app reset on >password " + all).split(" ")).forEach(user::add);
            node.commands().dispatch(CommandType.ACL, new StatusOutput<>(StringCodec.UTF8), user);
        }
    }
}
