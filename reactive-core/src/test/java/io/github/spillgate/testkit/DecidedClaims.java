package io.github.spillgate.testkit;

import io.github.spillgate.Decision;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;

/** The claims that a store has decided on. */
public final class DecidedClaims {

    private DecidedClaims() {}

    public static List<Claim> of(Decision decision) {
        return ((StoreDecision) decision).claims();
    }
}
