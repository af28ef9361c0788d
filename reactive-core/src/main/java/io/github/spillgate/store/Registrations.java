package io.github.spillgate.store;

import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** Registers the instances of a limiter, and counts them. {@code register.lua} has the format, and does the same. */
final class Registrations {

    private static final byte[] KIND = {'s', 'g', 'I'};
    private static final int ID = 16;
    private static final int INSTANCE = ID + 6;
    private static final int MOST_INSTANCES = 1_000;

    /** In milliseconds. A registration that lasts longer is from before the clock was set back. */
    private static final long LONGEST = 60_000;

    private Registrations() {}

    static Mono<Integer> register(Engine engine, String limiter, UUID instance, Duration lifetime) {
        // No count has this key: those have more colons.
        String key = "instances:" + limiter;
        return engine.run(
                List.of(key), LimitStore.NO_DEADLINE, page -> register(page, key, instance, lifetime.toMillis()));
    }

    private static @Nullable Integer register(Page page, String key, UUID instance, long life) {
        byte[] before = page.value(key);
        if (before.length > 0 && !Arrays.equals(KIND, Arrays.copyOf(before, KIND.length))) {
            return null;
        }
        long now = page.millis();
        long latest = now + life;
        byte[] id = new byte[ID];
        LittleEndian.put(id, 0, instance.getMostSignificantBits(), Long.BYTES);
        LittleEndian.put(id, Long.BYTES, instance.getLeastSignificantBits(), Long.BYTES);
        byte[] value = Arrays.copyOf(KIND, KIND.length + MOST_INSTANCES * INSTANCE);
        int number = 0;
        for (int at = KIND.length; at + INSTANCE <= before.length; at += INSTANCE) {
            long last = LittleEndian.get(before, at + ID, 6);
            boolean isOther = !Arrays.equals(before, at, at + ID, id, 0, ID);
            if (isOther && last > now && last <= now + LONGEST && number < MOST_INSTANCES) {
                System.arraycopy(before, at, value, KIND.length + number * INSTANCE, INSTANCE);
                latest = Math.max(latest, last);
                number++;
            }
        }
        if (life > 0 && number < MOST_INSTANCES) {
            int at = KIND.length + number * INSTANCE;
            System.arraycopy(id, 0, value, at, ID);
            LittleEndian.put(value, at + ID, now + life, 6);
            number++;
        }
        if (number > 0) {
            page.put(key, Arrays.copyOf(value, KIND.length + number * INSTANCE), latest);
        } else if (before.length > 0) {
            page.delete(key);
        }
        return number == 0 ? null : number;
    }
}
