package io.github.spillgate.redis.lane;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.cluster.SlotHash;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A cluster node's reply that another node owns the keys of a command. The node has executed nothing.
 *
 * @param isMoved whether the other node owns the slot from now on (MOVED); otherwise the slot is being migrated, and
 *     only this command goes to the other node (ASK)
 * @param slot the hash slot
 * @param host the host of the other node; empty or a question mark for the host of the node that replied
 * @param port the port of the other node
 */
public record Redirect(boolean isMoved, int slot, String host, int port) {

    private static final int HIGHEST_PORT = 65_535;
    private static final Pattern TEXT = Pattern.compile("(MOVED|ASK) (\\d{1,5}) (\\S*):(\\d{1,5})");

    /** Returns the redirect in an error; null if it is another error. */
    public static @Nullable Redirect parse(Throwable error) {
        String text = textOf(error);
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

    /** Returns whether a migration has split the keys between two nodes; each key can still be used alone. */
    static boolean isTryAgain(Throwable error) {
        return textOf(error).startsWith("TRYAGAIN ");
    }

    /** Returns whether an error for callers was caused by such a migration. */
    public static boolean isCausedByTryAgain(Throwable error) {
        return error.getCause() != null && isTryAgain(error.getCause());
    }

    /** Returns whether a node refuses commands because its cluster is down, as far as it knows. */
    public static boolean isClusterDown(Throwable error) {
        return textOf(error).startsWith("CLUSTERDOWN ");
    }

    private static String textOf(Throwable error) {
        String text = error instanceof RedisCommandExecutionException ? error.getMessage() : null;
        return text == null ? "" : text;
    }
}
