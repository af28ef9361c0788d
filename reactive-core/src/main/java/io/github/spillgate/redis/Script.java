package io.github.spillgate.redis;

import io.lettuce.core.codec.Base16;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A script: its text, and the digest of the text, by which Redis knows it. */
final class Script {

    /** The kinds of rate limits, each with a file of its own. */
    private static final String RATES = " kinds log counter bucket quota ban ";

    /** What a script does. Each of its files may use the local variables of the earlier ones. */
    @SuppressWarnings("ImmutableEnumChecker") // nothing changes the list of files
    enum Purpose {
        /** Decides a batch. */
        DECIDE("counts wire fast-path" + RATES + "holds decide"),

        /** Refunds permits. */
        REFUND("counts wire" + RATES + "refund"),

        /** Empties counts. */
        RESET("counts reset"),

        /** Charges permits that were granted elsewhere, or that Redis has lost. */
        RECONCILE("counts wire" + RATES + "reconcile"),

        /** Registers a process, counts the instances of its limiters, and publishes. */
        EXCHANGE("counts fleet"),

        /** Replaces the costs of decisions. */
        SETTLE("counts wire" + RATES + "settle"),

        /** Renews and releases permits of concurrency limits. */
        RENEW("counts wire kinds holds renew");

        private final List<String> files;

        Purpose(String files) {
            this.files =
                    Stream.of(files.split(" ", -1)).map(name -> name + ".lua").toList();
        }
    }

    private final byte[] text;
    private final String sha1;

    private Script(String text) {
        this.text = text.getBytes(StandardCharsets.UTF_8);
        this.sha1 = Base16.digest(this.text);
    }

    /**
     * Reads all scripts.
     *
     * @param change changes the text of each script; tests replace the clock
     */
    static Map<Purpose, Script> readAll(UnaryOperator<String> change) {
        Map<Purpose, Script> scripts = new EnumMap<>(Purpose.class);
        for (Purpose purpose : Purpose.values()) {
            String text = purpose.files.stream().map(Script::read).collect(Collectors.joining("\n"));
            scripts.put(purpose, new Script(change.apply(text)));
        }
        return scripts;
    }

    byte[] text() {
        return text;
    }

    String sha1() {
        return sha1;
    }

    /** Returns the text of a file without what only its readers need: lines with a comment, and indentation. */
    private static String read(String file) {
        try (InputStream in = Script.class.getResourceAsStream(file)) {
            if (in == null) {
                throw new IllegalStateException("the script " + file
                        + " is missing beside this class: expected the jar to be whole, with its resources");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .map(String::strip)
                    .filter(line -> !line.isEmpty() && !line.startsWith("--"))
                    .collect(Collectors.joining("\n"));
        } catch (IOException e) {
            throw new UncheckedIOException("the script " + file + " cannot be read", e);
        }
    }
}
