package io.github.spillgate.testkit;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;

/** A claim for a test that needs no limiter. */
public final class ClaimForTests {

    private ClaimForTests() {}

    /** Returns the claim of a limiter with the name "api" on one permit of a key. */
    public static Claim of(String key, Limit limit) {
        return DecidedClaims.of(Unprotected.limiter(LocalStore.bounded(16))
                        .peek(Charge.of(key, limit))
                        .block())
                .get(0);
    }
}
