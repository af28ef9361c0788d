package io.github.spillgate.internal.holding;

import io.github.spillgate.spi.Claim;

/** A claim that a limiter has created. The last methods are for one with an id under which it holds permits. */
public interface HeldClaim extends Claim {

    /** Returns the same claim on a ban, for which a denial of its request does not count. */
    Claim withoutStrikes();

    /** Returns when this claim got its id, by the clock of {@code Time.nanos()}: before the request was sent. */
    long heldSince();

    /** Notes that the permits were released, so that nothing renews them from now on. */
    void noteRelease();

    /** Returns whether the permits were released by their decision. */
    boolean isReleased();
}
