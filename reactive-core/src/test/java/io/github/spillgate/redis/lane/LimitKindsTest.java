package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.Count;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.ClaimForTests;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The text, the identity and the form in a request of each kind of limit. Instances of several versions share counts by
 * their identities, so these never change.
 */
class LimitKindsTest {

    /** The 21st of September 2026, in the afternoon. */
    private static final long NOW = 1_790_000_000_000L;

    private static final String TABLE = """
            Log | 100/1m | 1m:L60000.1 | 016400000000000060ea0000000001000000000000000000000000
            Log | 100/1m leased name=hot | hot:L60000.1 | 016400000000000060ea0000000001000000000000000000000000
            Log | 5000/24h resolution=15m counting-denied | 24h:L86400000.900000 | 0188130000000000005c26050000a0bb0d00000001000000000000
            Log | 10000000/24h | 24h:L86400000.8641 | 0180969800000000005c26050000c1210000000000000000000000
            Log | 4294967295/366d | 366d:L31622400000.3162557 | 01ffffffff0000000088d75c0700bd413000000000000000000000
            Counter | 10000/24h counter | 24h:C86400000 | 0210270000000000005c2605000001000000000000000000000000
            Counter | 10000/24h counter aligned counting-denied | 24h:A86400000 | 0310270000000000005c2605000001000000000001000000000000
            Counter | 1000000000000000/1h counter name=big | big:C3600000 | 020080c6a47e8d0380ee3600000001000000000000000000000000
            Bucket | 10/1s burst=50 | 1s:B1000 | 040a000000000000e8030000000032000000000000000000000000
            Bucket | 600/1m burst=10 leased | 1m:B60000 | 045802000000000060ea000000000a000000000000000000000000
            Bucket | 100/1m burst=20 counting-denied name=api | api:B60000 | 046400000000000060ea0000000014000000000001000000000000
            Bucket | 1/366d burst=100 | 366d:B31622400000 | 04010000000000000088d75c070064000000000000000000000000
            Concurrent | 20 concurrent | concurrent:H | 051400000000000060ea0000000001000000000000000000000000
            Concurrent | 1 concurrent hold=24h retry=5s name=exports | exports:H | 0501000000000000005c2605000001000000000000000000000000
            Quota | 500 daily | daily:Qd.Z.00:00.1 | 06f4010000000000002c43c1a001008869c6a0010000e48fcba001
            Quota | 10000 monthly zone=Europe/Berlin from=15 counting-denied | monthly:Qm.Europe/Berlin.00:00.15 | 061027000000000000034a02a0010027efa1a0010100ef6d3ca101
            Quota | 7 weekly at=06:00 name=plan | plan:Qw | 0607000000000000003f809ea00100c38cc2a00100004799e6a001
            Ban | ban 1h after 3/10m growing name=login | login:B | 0703000000000000c0270900000080ee3600000003000000000000
            Ban | pausable | pause:B | 0701000000000000005c26050000005c2605000000000000000000
            Quota | 1000000000000000 yearly | yearly:Qy.Z.00:00.1 | 060080c6a47e8d0300a8da769b0100d48bcea2010000003d26aa01
            """;

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = TABLE)
    void eachKindHasItsTextItsIdentityAndItsForm(String kind, String text, String identity, String form) {
        Limit limit = Limit.parse(text);
        assertThat(limit).hasToString(text);
        assertThat(limit.getClass().getSimpleName()).isEqualTo(kind);
        Claim claim = ClaimForTests.of("k", limit);
        assertThat(claim.identity()).isEqualTo("api:" + identity + ":{k}");
        byte[] request = new ScriptRequest(0, NOW).addClaim(0, claim).toBytes();
        assertThat(HexFormat.of().formatHex(request, 2, 2 + ScriptRequest.LIMIT_LENGTH))
                .isEqualTo(form);
    }

    @Test
    void eachKindHasARowAndACountOfItsOwn() {
        Map<Class<?>, Class<?>> counts = new HashMap<>();
        TABLE.lines().map(row -> Limit.parse(row.split(" \\| ", -1)[1])).forEach(limit -> {
            counts.put(limit.getClass(), Count.of(limit).getClass());
        });
        assertThat(counts.keySet()).hasSameElementsAs(Arrays.asList(Limit.class.getPermittedSubclasses()));
        assertThat(counts.values()).doesNotHaveDuplicates();
    }
}
