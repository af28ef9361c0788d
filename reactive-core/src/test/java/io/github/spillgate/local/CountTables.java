package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Policy;
import io.github.spillgate.count.Count;
import java.util.List;

/** Looks into count tables, for tests in other packages. */
public final class CountTables {

    private CountTables() {}

    /** Returns the counts that are not protected. */
    public static <C extends Count> List<C> unprotected(CountTable<C> table) {
        table.cache().cleanUp();
        return List.copyOf(table.cache().asMap().values());
    }

    public static int protectedCounts(CountTable<?> table) {
        return table.denied().size();
    }

    public static boolean isProtected(CountTable<?> table, Object handle) {
        return table.denied().get(handle) != null;
    }

    /** Evicts all counts that are not protected. */
    public static <C extends Count> void evict(CountTable<C> table) {
        Policy.Eviction<Object, C> bound = table.cache().policy().eviction().orElseThrow();
        long maximum = bound.getMaximum();
        bound.setMaximum(0);
        bound.setMaximum(maximum);
    }
}
