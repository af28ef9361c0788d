package io.github.spillgate.store;

import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.internal.fleet.PublishedValues;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.LimitStore;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import reactor.core.publisher.Mono;

/**
 * Registers processes, counts the instances of each limiter, and publishes. {@code fleet.lua} has the format, and does
 * the same.
 */
final class Registrations {

    /** No count has this key, nor that of published values: those have colons. */
    static final String INSTANCES = "instances";

    private static final byte[] KIND = {'s', 'g', 'I'};
    private static final int TIME = 6;
    private static final int HEAD = 3 + TIME;
    private static final int ID = 16;
    private static final int INSTANCE = ID + TIME;
    private static final int HASH = 4;
    private static final int MOST_INSTANCES = 1_000;

    /** In all lists. A process with one more is registered for all limiters. */
    private static final int MOST_HASHES = 4_000;

    /** In milliseconds. A registration that lasts longer is from before the clock was set back. */
    private static final long LONGEST = 60_000;

    private final Map<String, List<byte[]>> groups = new LinkedHashMap<>();
    private final long now;
    private long overflowUntil;

    private Registrations(long now) {
        this.now = now;
    }

    /** Registers a process, and returns the reply without values. Its numbers are empty if the value is foreign. */
    static Mono<FleetExchange.FleetReply> register(Engine engine, FleetExchange request) {
        return engine.run(
                List.of(INSTANCES),
                LimitStore.NO_DEADLINE,
                page -> new FleetExchange.FleetReply(
                        page.micros(),
                        new Registrations(page.millis()).register(page, request),
                        request.known(),
                        FleetExchange.PublishOutcome.NONE,
                        null));
    }

    /** Publishes, and returns the reply without numbers. */
    static Mono<FleetExchange.FleetReply> publish(Engine engine, FleetExchange request) {
        String key = CompareAndWriteStore.PUBLISHED;
        return engine.run(List.of(key), LimitStore.NO_DEADLINE, page -> {
            PublishedValues values = PublishedValues.exchange(page.value(key), page.micros(), request);
            if (values.isChanged()) {
                page.put(key, values.toBytes(), values.until());
            }
            return values.reply(page.micros(), List.of(), request);
        });
    }

    private List<Integer> register(Page page, FleetExchange request) {
        byte[] before = page.value(INSTANCES);
        if (before.length > 0 && (before.length < HEAD || !Arrays.equals(KIND, Arrays.copyOf(before, KIND.length)))) {
            return List.of();
        }
        byte[] id = new byte[ID];
        LittleEndian.put(id, 0, request.instance().getMostSignificantBits(), Long.BYTES);
        LittleEndian.put(id, Long.BYTES, request.instance().getLeastSignificantBits(), Long.BYTES);
        readOthers(before, id);
        long life = request.lifetime().toMillis();
        String hashes = new String(PublishedValues.hashes(request.limiters()), StandardCharsets.ISO_8859_1);
        String own = listOf(hashes);
        if (life > 0 && sum(groups.values()) < MOST_INSTANCES) {
            byte[] instance = Arrays.copyOf(id, INSTANCE);
            LittleEndian.put(instance, ID, now + life, TIME);
            groups.computeIfAbsent(own, unused -> new ArrayList<>()).add(instance);
        } else if (life > 0) {
            overflowUntil = now + life;
        }
        if (groups.isEmpty()) {
            page.delete(INSTANCES);
        } else {
            page.put(INSTANCES, toBytes(), latest());
        }
        return numbers(hashes);
    }

    private static int sum(Collection<List<byte[]>> lists) {
        return lists.stream().mapToInt(List::size).sum();
    }

    private boolean isPresent(long until) {
        return until > now && until <= now + LONGEST;
    }

    private void readOthers(byte[] bytes, byte[] id) {
        if (bytes.length < HEAD) {
            return;
        }
        long overflow = LittleEndian.get(bytes, KIND.length, TIME);
        overflowUntil = isPresent(overflow) ? overflow : 0;
        int at = HEAD;
        while (at + 4 <= bytes.length) {
            int hashes = (int) LittleEndian.get(bytes, at, 2) * HASH;
            int instances = (int) LittleEndian.get(bytes, at + 2, 2);
            at += 4;
            List<byte[]> group = new ArrayList<>();
            String list = new String(bytes, at, hashes, StandardCharsets.ISO_8859_1);
            at += hashes;
            for (int i = 0; i < instances; i++, at += INSTANCE) {
                if (!Arrays.equals(bytes, at, at + ID, id, 0, ID)
                        && isPresent(LittleEndian.get(bytes, at + ID, TIME))) {
                    group.add(Arrays.copyOfRange(bytes, at, at + INSTANCE));
                }
            }
            if (!group.isEmpty()) {
                groups.put(list, group);
            }
        }
    }

    /** Returns the list under which the process is registered: empty, for all limiters, without room for its own. */
    private String listOf(String hashes) {
        int others = groups.keySet().stream()
                .filter(list -> !list.equals(hashes))
                .mapToInt(String::length)
                .sum();
        return hashes.length() > FleetExchange.MOST_NAMES * HASH || others + hashes.length() > MOST_HASHES * HASH
                ? ""
                : hashes;
    }

    private List<Integer> numbers(String hashes) {
        int[] numbers = new int[hashes.length() / HASH];
        Arrays.fill(numbers, overflowUntil > 0 ? FleetExchange.TOO_MANY : 0);
        groups.forEach((list, instances) -> {
            Set<String> names = new HashSet<>();
            for (int at = 0; at < list.length() && !list.equals(hashes); at += HASH) {
                names.add(list.substring(at, at + HASH));
            }
            for (int i = 0; i < numbers.length && overflowUntil == 0; i++) {
                if (list.isEmpty()
                        || list.equals(hashes)
                        || names.contains(hashes.substring(HASH * i, HASH * i + HASH))) {
                    numbers[i] += instances.size();
                }
            }
        });
        return Arrays.stream(numbers).boxed().toList();
    }

    private long latest() {
        return groups.values().stream()
                .flatMap(List::stream)
                .mapToLong(instance -> LittleEndian.get(instance, ID, TIME))
                .reduce(overflowUntil, Math::max);
    }

    private byte[] toBytes() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] head = Arrays.copyOf(KIND, HEAD);
        LittleEndian.put(head, KIND.length, overflowUntil, TIME);
        bytes.writeBytes(head);
        groups.forEach((list, instances) -> {
            byte[] sizes = new byte[4];
            LittleEndian.put(sizes, 0, list.length() / HASH, 2);
            LittleEndian.put(sizes, 2, instances.size(), 2);
            bytes.writeBytes(sizes);
            bytes.writeBytes(list.getBytes(StandardCharsets.ISO_8859_1));
            instances.forEach(bytes::writeBytes);
        });
        return bytes.toByteArray();
    }
}
