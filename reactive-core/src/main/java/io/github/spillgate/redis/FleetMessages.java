package io.github.spillgate.redis;

import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.internal.fleet.PublishedValues;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;

/** The request and the reply of {@code fleet.lua}, which has the format. */
final class FleetMessages {

    private static final PublishOutcome[] OUTCOMES = PublishOutcome.values();
    private static final int HEAD = 6 + 16 + 7 + 2 + 2;
    private static final int HEAD_OF_REPLY = 7 + 1 + 7 + 1;

    private FleetMessages() {}

    static byte[] request(FleetExchange request) {
        byte[] head = new byte[HEAD];
        int at = LittleEndian.put(head, 0, request.lifetime().toMillis(), 6);
        at = LittleEndian.put(head, at, request.instance().getMostSignificantBits(), Long.BYTES);
        at = LittleEndian.put(head, at, request.instance().getLeastSignificantBits(), Long.BYTES);
        at = LittleEndian.put(head, at, request.known(), 7);
        at = LittleEndian.put(head, at, request.limiters().size(), 2);
        LittleEndian.put(head, at, request.restored().size(), 2);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes(head);
        bytes.writeBytes(PublishedValues.hashes(request.limiters()));
        bytes.writeBytes(PublishedValues.write(request.restored()));
        if (request.published() != null) {
            bytes.writeBytes(PublishedValues.write(List.of(request.published())));
        }
        return bytes.toByteArray();
    }

    static FleetExchange.FleetReply reply(byte[] bytes, FleetExchange request) {
        boolean isCounted = bytes[HEAD_OF_REPLY - 1] == 1;
        int at = HEAD_OF_REPLY;
        List<Integer> instances = new ArrayList<>();
        for (int i = 0; isCounted && i < request.limiters().size(); i++, at += 2) {
            instances.add((int) LittleEndian.get(bytes, at, 2));
        }
        long version = LittleEndian.get(bytes, 8, 7);
        boolean isNew = version != request.known() || request.published() != null;
        return new FleetExchange.FleetReply(
                LittleEndian.get(bytes, 0, 7),
                instances,
                version,
                OUTCOMES[bytes[7]],
                isNew ? PublishedValues.read(bytes, at) : null);
    }
}
