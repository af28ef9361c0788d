package io.github.spillgate.spi;

import java.util.List;

/**
 * A refund of the oldest permits of a count, of any decision and at most as many as are recorded. Does nothing for a
 * concurrency limit, because it is not known which of the holds has ended.
 *
 * @param claim a claim on the count, with the permits to refund as its cost
 */
public record RefundOldest(Claim claim) implements Correction {

    /**
     * {@return a refund for each claim}
     *
     * @param claims the claims, no two with the same identity
     */
    public static List<RefundOldest> of(List<Claim> claims) {
        return claims.stream().map(RefundOldest::new).toList();
    }
}
