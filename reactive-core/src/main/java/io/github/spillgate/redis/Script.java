package io.github.spillgate.redis;

import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.codec.Base16;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.function.UnaryOperator;

/** A script as Redis gets it: its text, and the digest of the text, by which it is called. */
final class Script {

    private final byte[] text;
    private final String sha1;
    private final ScriptOutputType output;

    private Script(byte[] text, ScriptOutputType output) {
        this.output = output;
        this.text = text;
        this.sha1 = Base16.digest(text);
    }

    /** Reads a script and, before it, what all of them share. The change is the identity, but for tests of the clock. */
    static Script named(String name, ScriptOutputType output, UnaryOperator<String> change) {
        return new Script(
                change.apply(read("counts.lua") + "\n" + read(name)).getBytes(StandardCharsets.UTF_8), output);
    }

    byte[] text() {
        return text;
    }

    String sha1() {
        return sha1;
    }

    ScriptOutputType output() {
        return output;
    }

    private static String read(String name) {
        try (InputStream in = Script.class.getResourceAsStream(name)) {
            if (in == null) {
                throw new IllegalStateException("the script " + name
                        + " is missing beside this class: expected the jar to be whole, with its resources");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException("the script " + name + " cannot be read", e);
        }
    }
}
