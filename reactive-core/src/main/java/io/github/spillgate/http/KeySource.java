package io.github.spillgate.http;

import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/**
 * Where the key of a request comes from: who is charged for it.
 *
 * <pre>{@code
 * KeySource.clientAddress(ClientAddress.ofXForwardedFor("10.0.0.0/8"))
 * KeySource.header("X-Api-Key").hashed(secret)
 * KeySource.firstOf(KeySource.principal(), KeySource.clientAddress(ClientAddress.ofPeer()))
 * match -> tenants.of(match.request().headers("Host"))    // your own
 * }</pre>
 *
 * A source that completes empty, or with an empty text, has no key; the rule says what holds then. It must not block. Whatever
 * it returns is never trusted: it is encoded before it reaches a store, and is told to nobody.
 *
 * <p>Where a client sends a header, a parameter or a cookie more than once, with different values, there is no key either: he
 * might otherwise be authenticated by one of them and limited by another.
 */
@FunctionalInterface
public interface KeySource {

    /**
     * Finds the key of a request.
     *
     * @param match the request, and the rule that it is wanted for
     * @return the key; empty if there is none
     */
    Mono<String> find(Match match);

    /**
     * The address of the client.
     *
     * @param client finds it
     * @return a source
     */
    static KeySource clientAddress(ClientAddress client) {
        Objects.requireNonNull(client, "client is null: expected what finds it, for example ClientAddress.ofPeer()");
        return new Sources.AtHand(
                "address", true, match -> client.resolve(match.request().peer(), match.request()::headers));
    }

    /**
     * The value of a header field.
     *
     * @param name the name of the field
     * @return a source
     */
    static KeySource header(String name) {
        String field = checkName("header", name, "X-Api-Key");
        if (!Tokens.is(field)) {
            throw new IllegalArgumentException(
                    "header " + Quoted.text(field) + " is no name of a field: expected one, for example \"X-Api-Key\"");
        }
        return of("header:" + field, match -> theOnly(match.request().headers(field)));
    }

    /**
     * The value of a parameter of the query.
     *
     * @param name the name of the parameter
     * @return a source
     */
    static KeySource query(String name) {
        String parameter = checkName("query parameter", name, "api_key");
        return of("query:" + parameter, match -> theOnly(match.request().queryParameters(parameter)));
    }

    /**
     * The value of a cookie.
     *
     * @param name the name of the cookie
     * @return a source
     */
    static KeySource cookie(String name) {
        String cookie = checkName("cookie", name, "session");
        return of("cookie:" + cookie, match -> theOnly(match.request().cookies(cookie)));
    }

    /**
     * The name of the authenticated user. A rule with this key is decided after authentication, and by default it does not apply to
     * requests that are not authenticated.
     *
     * @return a source
     */
    static KeySource principal() {
        return new Sources.Principal();
    }

    /**
     * A variable in the path, as {@code id} in {@code /users/{id}}.
     *
     * @param name the name of the variable
     * @return a source
     */
    static KeySource pathVariable(String name) {
        String variable = checkName("path variable", name, "id");
        return of("path:" + variable, match -> match.pathVariable(variable));
    }

    /**
     * What some part of the service has noted on the request.
     *
     * @param name the name of the attribute
     * @return a source
     */
    static KeySource attribute(String name) {
        String attribute = checkName("attribute", name, "tenant");
        return of("attribute:" + attribute, match -> match.request().attribute(attribute));
    }

    /**
     * One key for all.
     *
     * @param key the key, not empty
     * @return a source
     */
    static KeySource constant(String key) {
        String constant = checkName("constant key", key, "everybody");
        Optional<String> found = Optional.of(constant);
        return new Sources.AtHand("constant:" + constant, true, match -> found);
    }

    /**
     * Several together: each combination of theirs is a key. If one of them has none, there is none.
     *
     * @param sources at least two
     * @return a source
     */
    static KeySource joined(KeySource... sources) {
        return new Sources.Joined(Sources.several(sources));
    }

    /**
     * The first that has a key. Keys of different sources are never the same, whatever their text.
     *
     * @param sources at least two
     * @return a source
     */
    static KeySource firstOf(KeySource... sources) {
        return new Sources.FirstOf(Sources.several(sources));
    }

    /**
     * The same with each key replaced by its HMAC, for keys that are secrets, such as an API key or a session: nobody who reads the
     * store learns them, and nobody without the secret can try whether one is there. It is HMAC-SHA-256, cut to 128 bits.
     *
     * @param secret at least 16 bytes; all instances need the same, and with another one all counts begin anew
     * @return a source
     * @throws IllegalArgumentException if it is shorter
     */
    default KeySource hashed(byte[] secret) {
        return new Sources.Hashed(this, secret);
    }

    private static KeySource of(String text, Function<Match, Optional<String>> find) {
        return new Sources.AtHand(text, false, find);
    }

    private static Optional<String> theOnly(List<String> values) {
        if (values.isEmpty()) {
            return Optional.empty();
        }
        String first = values.get(0);
        for (int i = 1; i < values.size(); i++) {
            if (!Objects.equals(values.get(i), first)) {
                return Optional.empty();
            }
        }
        return Optional.ofNullable(first);
    }

    private static String checkName(String what, String name, String example) {
        Objects.requireNonNull(name, () -> what + " is null: expected a name, for example \"" + example + "\"");
        if (name.isEmpty()) {
            throw new IllegalArgumentException(
                    what + " \"\" is empty: expected at least one character, for example \"" + example + "\"");
        }
        return name;
    }
}
