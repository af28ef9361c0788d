package io.github.spillgate.local;

import io.github.spillgate.testkit.Thorough;

/** A million new keys come to a store of 100,000. */
@Thorough
class LocalStoreLargeFloodTest extends LocalStoreFloodTest {

    @Override
    int bound() {
        return 100_000;
    }
}
