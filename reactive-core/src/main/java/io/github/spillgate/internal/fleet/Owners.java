package io.github.spillgate.internal.fleet;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Values of objects, as long as these live. Two objects that are equal are not the same. Thread-safe. */
final class Owners<V> {

    private final ConcurrentMap<Owner, V> values = new ConcurrentHashMap<>();
    private final ReferenceQueue<Object> collected = new ReferenceQueue<>();

    @Nullable
    V get(Object owner) {
        return values.get(new Owner(owner, null));
    }

    void put(Object owner, V value) {
        forgetCollected();
        values.put(new Owner(owner, collected), value);
    }

    V computeIfAbsent(Object owner, Supplier<V> value) {
        forgetCollected();
        return values.computeIfAbsent(new Owner(owner, collected), unused -> value.get());
    }

    private void forgetCollected() {
        for (Reference<?> one = collected.poll(); one != null; one = collected.poll()) {
            values.remove(one);
        }
    }

    private static final class Owner extends WeakReference<Object> {

        private final int hash;

        Owner(Object owner, @Nullable ReferenceQueue<Object> collected) {
            super(owner, collected);
            hash = System.identityHashCode(owner);
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(@Nullable Object other) {
            Object owner = get();
            return other == this || (owner != null && other instanceof Owner another && another.get() == owner);
        }
    }
}
