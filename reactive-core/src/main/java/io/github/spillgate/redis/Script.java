package io.github.spillgate.redis;

import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.codec.Base16;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;

/** A script: its text, and the digest of the text, by which Redis knows it. */
final class Script {

    private final byte[] text;
    private final String sha1;
    private final ScriptOutputType output;
    private final byte[] idleRequest;

    private Script(byte[] text, ScriptOutputType output, byte[] idleRequest) {
        this.output = output;
        this.text = text;
        this.sha1 = Base16.digest(text);
        this.idleRequest = idleRequest;
    }

    /**
     * Reads a script from several files.
     *
     * @param output the type of its reply
     * @param idleRequest a request that changes nothing
     * @param change changes the text; tests replace the clock
     * @param parts the files; each may use the local variables of the earlier ones
     */
    static Script of(ScriptOutputType output, byte[] idleRequest, UnaryOperator<String> change, String... parts) {
        String text = Arrays.stream(parts).map(Script::read).collect(Collectors.joining("\n"));
        return new Script(change.apply(text).getBytes(StandardCharsets.UTF_8), output, idleRequest);
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

    /** Returns a request that changes nothing, with any keys. */
    byte[] idleRequest() {
        return idleRequest;
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
