package io.github.spillgate.internal.fleet;

import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import io.github.spillgate.spi.FleetExchange.Value;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** All published values of a store, in one row. {@code fleet.lua} has the format, and does the same. */
public final class PublishedValues {

    /** The highest number of bytes of all values. */
    static final int MOST_BYTES = 65_536;

    private static final byte[] KIND = {'s', 'g', 'P'};
    private static final int VERSION = 7;
    private static final int HEAD = KIND.length + VERSION;
    private static final int HEAD_OF_VALUE = VERSION + 6 + 1 + 2;

    private final Map<String, Value> values = new LinkedHashMap<>();
    private final long now;
    private final boolean isForeign;
    private long version;
    private PublishOutcome outcome = PublishOutcome.NONE;
    private boolean isChanged;

    private PublishedValues(byte[] bytes, long now) {
        this.now = now;
        boolean isOurs = bytes.length >= HEAD && Arrays.equals(KIND, Arrays.copyOf(bytes, KIND.length));
        isForeign = !isOurs && bytes.length > 0;
        if (isOurs) {
            version = LittleEndian.get(bytes, KIND.length, VERSION);
            for (Value value : read(bytes, HEAD)) {
                if (value.until() > now) {
                    values.put(value.name(), value);
                }
            }
        }
    }

    /**
     * Restores and publishes the values of a request.
     *
     * @param bytes the row; empty if there is none
     * @param micros the time in microseconds
     */
    public static PublishedValues exchange(byte[] bytes, long micros, FleetExchange request) {
        PublishedValues all = new PublishedValues(bytes, micros / 1_000);
        long highest = all.version;
        for (Value lost : request.restored()) {
            Value known = all.values.get(lost.name());
            if (lost.until() > all.now && (known == null || known.version() < lost.version())) {
                all.put(lost);
            }
        }
        for (Value value : all.values.values()) {
            highest = Math.max(highest, value.version());
        }
        long next = Math.max(highest + 1, micros);
        Value published = request.published();
        if (published != null) {
            Value known = all.values.get(published.name());
            if ((known == null ? 0 : known.version()) != published.version()) {
                all.outcome = PublishOutcome.CONFLICT;
            } else {
                Value accepted = new Value(published.name(), next, published.until(), published.content());
                all.outcome = all.put(accepted) ? PublishOutcome.PUBLISHED : PublishOutcome.REFUSED;
            }
        }
        if (all.isChanged) {
            all.version = next;
        }
        return all;
    }

    /** Puts a value, unless there is no room. It is kept as long as the one that it replaces, which could return. */
    private boolean put(Value value) {
        Value before = values.get(value.name());
        long until = before == null ? value.until() : Math.max(value.until(), before.until());
        if (isForeign || !fit(values.values(), value)) {
            return false;
        }
        values.put(value.name(), new Value(value.name(), value.version(), until, value.content()));
        isChanged = true;
        return true;
    }

    /** Returns whether there is room for all of these, and for one that replaces the one of its name. */
    static boolean fit(Collection<Value> values, Value more) {
        int others = values.stream()
                .filter(value -> !value.name().equals(more.name()))
                .mapToInt(PublishedValues::size)
                .sum();
        return HEAD + others + size(more) <= MOST_BYTES;
    }

    private static int size(Value value) {
        return HEAD_OF_VALUE + value.name().length() + utf8(value.content()).length;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns whether the row must be written. */
    public boolean isChanged() {
        return isChanged;
    }

    /** Returns the time until which the row is kept, in milliseconds. */
    public long until() {
        return values.values().stream().mapToLong(Value::until).max().orElse(0);
    }

    /** Returns the row. */
    public byte[] toBytes() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes(KIND);
        byte[] number = new byte[VERSION];
        LittleEndian.put(number, 0, version, VERSION);
        bytes.writeBytes(number);
        bytes.writeBytes(write(values.values()));
        return bytes.toByteArray();
    }

    /** Returns the reply to a request. */
    public FleetExchange.FleetReply reply(long micros, List<Integer> instances, FleetExchange request) {
        boolean isNew = version != request.known() || request.published() != null;
        return new FleetExchange.FleetReply(
                micros, instances, version, outcome, isNew ? List.copyOf(values.values()) : null);
    }

    /** Writes values, as they are in a row. */
    public static byte[] write(Iterable<Value> values) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (Value value : values) {
            byte[] content = utf8(value.content());
            byte[] head = new byte[HEAD_OF_VALUE];
            int at = LittleEndian.put(head, 0, value.version(), VERSION);
            at = LittleEndian.put(head, at, value.until(), 6);
            at = LittleEndian.put(head, at, value.name().length(), 1);
            LittleEndian.put(head, at, content.length, 2);
            bytes.writeBytes(head);
            bytes.writeBytes(utf8(value.name()));
            bytes.writeBytes(content);
        }
        return bytes.toByteArray();
    }

    /** Returns four bytes for each name. Names with equal bytes count as one: with too many instances, not too few. */
    public static byte[] hashes(List<String> names) {
        byte[] hashes = new byte[Integer.BYTES * names.size()];
        for (int i = 0; i < names.size(); i++) {
            LittleEndian.put(hashes, Integer.BYTES * i, names.get(i).hashCode(), Integer.BYTES);
        }
        return hashes;
    }

    /** Reads the values behind the head of a row or a reply. */
    public static List<Value> read(byte[] bytes, int from) {
        List<Value> values = new ArrayList<>();
        int at = from;
        while (at + HEAD_OF_VALUE <= bytes.length) {
            int name = (int) LittleEndian.get(bytes, at + VERSION + 6, 1);
            int content = (int) LittleEndian.get(bytes, at + VERSION + 7, 2);
            int text = at + HEAD_OF_VALUE;
            if (text + name + content > bytes.length) {
                break;
            }
            values.add(new Value(
                    new String(bytes, text, name, StandardCharsets.UTF_8),
                    LittleEndian.get(bytes, at, VERSION),
                    LittleEndian.get(bytes, at + VERSION, 6),
                    new String(bytes, text + name, content, StandardCharsets.UTF_8)));
            at = text + name + content;
        }
        return values;
    }
}
