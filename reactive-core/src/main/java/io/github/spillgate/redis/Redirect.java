package io.github.spillgate.redis;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.cluster.SlotHash;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Where a node of a cluster says that another one has what it was asked for. It has done nothing then.
 *
 * @param isForGood whether that one has the slot from now on; else only what is not here any more, while the slot is
 *     being moved
 * @param slot which slot
 * @param host where the other one is; empty, or a question mark, if that is where this one is, for all that it knows
 * @param port its port
 */
record Redirect(boolean isForGood, int slot, String host, int port) {

    private static final int HIGHEST_PORT = 65_535;
    private static final Pattern TEXT = Pattern.compile("(MOVED|ASK) (\\d{1,5}) (\\S*):(\\d{1,5})");

    /** Reads what a node has said; null if it is something else. */
    static @Nullable Redirect in(Throwable said) {
        String text = said instanceof RedisCommandExecutionException ? said.getMessage() : null;
        if (text == null) {
            return null;
        }
        Matcher parts = TEXT.matcher(text);
        if (!parts.matches()) {
            return null;
        }
        int slot = Integer.parseInt(parts.group(2));
        int port = Integer.parseInt(parts.group(4));
        return slot < SlotHash.SLOT_COUNT && port <= HIGHEST_PORT
                ? new Redirect(parts.group(1).equals("MOVED"), slot, parts.group(3), port)
                : null;
    }

    /** Whether a node has said that the counts are on two nodes at the moment: each by itself may be had. */
    static boolean isTornApart(Throwable said) {
        String text = said instanceof RedisCommandExecutionException ? said.getMessage() : null;
        return text != null && text.startsWith("TRYAGAIN ");
    }

    /**
     * Whether a node has said that it decides nothing, because it has no part in a cluster that is well, for all that
     * it knows.
     */
    static boolean isOutOfCluster(Throwable said) {
        String text = said instanceof RedisCommandExecutionException ? said.getMessage() : null;
        return text != null && text.startsWith("CLUSTERDOWN ");
    }

    /**
     * Whom to ask instead.
     *
     * @param server the other node
     * @param asks how to ask it
     */
    record Target(Server server, CommandSender asks) {}
}
