package io.github.spillgate.http.settings;

import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The syntax of key sources in settings:
 *
 * <table>
 * <caption>Key sources as text</caption>
 * <tr><th>text</th><th>key</th></tr>
 * <tr><td>{@code address}</td><td>the address of the client</td></tr>
 * <tr><td>{@code principal}</td><td>the authenticated user</td></tr>
 * <tr><td>{@code header:X-Api-Key}, {@code query:api_key}, {@code cookie:session}</td><td>the value that the client has
 * sent</td></tr>
 * <tr><td>{@code path:id}</td><td>a path variable</td></tr>
 * <tr><td>{@code attribute:tenant}</td><td>a request attribute, which the service sets</td></tr>
 * <tr><td>{@code constant:all}</td><td>one key for all requests</td></tr>
 * <tr><td>{@code bean:tenantKey}</td><td>the key of a custom source</td></tr>
 * <tr><td>{@code hashed(header:X-Api-Key)}</td><td>the HMAC of a key, for secrets</td></tr>
 * <tr><td>{@code principal | address}</td><td>the first key that exists</td></tr>
 * <tr><td>{@code address + header:User-Agent}</td><td>the combination of both; binds more tightly than {@code
 * |}</td></tr>
 * </table>
 *
 * <p>Immutable.
 */
public final class KeySyntax {

    /** The sources without a name. The order is that of an error message. */
    private static final Map<String, Function<KeySyntax, KeySource>> UNNAMED = new LinkedHashMap<>();

    /** The sources with a name behind a colon, in the same order. */
    private static final Map<String, BiFunction<Parser, String, KeySource>> NAMED = new LinkedHashMap<>();

    static {
        UNNAMED.put("address", syntax -> KeySource.clientAddress(syntax.client));
        UNNAMED.put("principal", syntax -> KeySource.principal());
        NAMED.put("header", (parser, name) -> KeySource.header(name));
        NAMED.put("query", (parser, name) -> KeySource.query(name));
        NAMED.put("cookie", (parser, name) -> KeySource.cookie(name));
        NAMED.put("path", (parser, name) -> KeySource.pathVariable(name));
        NAMED.put("attribute", (parser, name) -> KeySource.attribute(name));
        NAMED.put("constant", (parser, name) -> KeySource.constant(name));
        NAMED.put("bean", Parser::bean);
    }

    private final ClientAddress client;
    private final Function<String, Optional<KeySource>> beans;
    private final byte @Nullable [] secret;

    private KeySyntax(ClientAddress client, Function<String, Optional<KeySource>> beans, byte @Nullable [] secret) {
        this.client = client;
        this.beans = beans;
        this.secret = secret;
    }

    /**
     * Returns a syntax without beans and without a secret.
     *
     * @param client how {@code address} is determined
     * @return the syntax
     */
    public static KeySyntax of(ClientAddress client) {
        Checks.present(client, "client", "ClientAddress.ofPeer()");
        return new KeySyntax(client, name -> Optional.empty(), null);
    }

    /**
     * Returns a copy with custom sources, as in {@code bean:tenantKey}.
     *
     * @param beans the lookup of a source by its name
     * @return the syntax
     */
    public KeySyntax beans(Function<String, Optional<KeySource>> beans) {
        Checks.some(beans, "beans", "name -> Optional.empty()");
        return new KeySyntax(client, beans, secret);
    }

    /**
     * Returns a copy with a secret, for {@code hashed(…)}.
     *
     * @param secret at least 16 bytes
     * @return the syntax
     * @throws IllegalArgumentException if the secret is shorter
     */
    public KeySyntax secret(byte[] secret) {
        // Checks the secret.
        KeySource.principal().hashed(secret);
        return new KeySyntax(client, beans, secret.clone());
    }

    /**
     * Parses a key source.
     *
     * @param text the text, in the syntax above
     * @return the source
     * @throws IllegalArgumentException if the text is invalid; the message says where, and what was expected
     */
    public KeySource parse(String text) {
        Parser parser = new Parser(Checks.present(text, "key", "address"));
        KeySource source = parser.firstOf();
        if (!parser.isAtEnd()) {
            throw parser.refused("nothing more, or | or + before another key; a name has no space in it, for example"
                    + " header:X-Api-Key | address");
        }
        return source;
    }

    /** Returns the kinds of sources, each with the colon before its name, if it has one. */
    static Stream<String> kinds() {
        return Stream.concat(UNNAMED.keySet().stream(), NAMED.keySet().stream().map(kind -> kind + ":"));
    }

    /**
     * Returns how {@code address} is determined.
     *
     * @return the source of the address
     */
    public ClientAddress client() {
        return client;
    }

    /** A recursive descent parser. */
    private final class Parser {

        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        KeySource firstOf() {
            List<KeySource> sources = new ArrayList<>();
            do {
                sources.add(joined());
            } while (takes('|'));
            return sources.size() == 1 ? sources.get(0) : KeySource.firstOf(sources.toArray(KeySource[]::new));
        }

        private KeySource joined() {
            List<KeySource> sources = new ArrayList<>();
            do {
                sources.add(one());
            } while (takes('+'));
            return sources.size() == 1 ? sources.get(0) : KeySource.joined(sources.toArray(KeySource[]::new));
        }

        private KeySource one() {
            skipSpace();
            int start = at;
            String kind = word(":()|+");
            if (takes('(')) {
                if (!kind.equals("hashed")) {
                    throw unknownKind(start);
                }
                KeySource inner = firstOf();
                if (!takes(')')) {
                    throw refused("a closing parenthesis");
                }
                return hashed(inner);
            }
            if (at < text.length() && text.charAt(at) == ':') {
                at++;
                return named(kind, word("()|+"), start);
            }
            Function<KeySyntax, KeySource> unnamed = UNNAMED.get(kind);
            if (unnamed == null) {
                throw unknownKind(start);
            }
            return unnamed.apply(KeySyntax.this);
        }

        private KeySource named(String kind, String name, int start) {
            if (name.isEmpty()) {
                throw refused("a name after \"" + kind + ":\", for example header:X-Api-Key");
            }
            BiFunction<Parser, String, KeySource> named = NAMED.get(kind);
            if (named == null) {
                throw unknownKind(start);
            }
            return named.apply(this, name);
        }

        private IllegalArgumentException unknownKind(int start) {
            at = start;
            return refused(kinds().map(kind -> kind.endsWith(":") ? kind + "…" : kind)
                            .collect(Collectors.joining(", ")) + " or hashed(…), for example principal | address");
        }

        private KeySource bean(String name) {
            return beans.apply(name)
                    .orElseThrow(() -> new IllegalArgumentException(
                            "key " + Text.quote(text) + " names a key source " + Text.quote(name)
                                    + " that is not there: expected the name of a bean of type KeySource, for example"
                                    + " bean:tenantKey"));
        }

        private KeySource hashed(KeySource source) {
            if (secret == null) {
                throw new IllegalArgumentException("key " + Text.quote(text)
                        + " is to be hashed, but there is no secret: expected random text of at least 16 bytes, the"
                        + " same in all instances, as spillgate.secret in Spring Boot, \"secret\" in the options of"
                        + " Vert.x, or KeySyntax.secret(…), for example the output of openssl rand -base64 32");
            }
            return source.hashed(secret);
        }

        /** Reads everything up to one of these characters, or to a space. */
        private String word(String ends) {
            int start = at;
            while (at < text.length()
                    && !Character.isWhitespace(text.charAt(at))
                    && ends.indexOf(text.charAt(at)) < 0) {
                at++;
            }
            return text.substring(start, at);
        }

        private boolean takes(char c) {
            skipSpace();
            boolean there = at < text.length() && text.charAt(at) == c;
            at += there ? 1 : 0;
            return there;
        }

        private void skipSpace() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
                at++;
            }
        }

        boolean isAtEnd() {
            return at == text.length();
        }

        IllegalArgumentException refused(String expected) {
            return new IllegalArgumentException(
                    "key " + Text.quote(text) + " cannot be read at character " + (at + 1) + ": expected " + expected);
        }
    }
}
