package io.github.spillgate.http;

import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.HttpTokens;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/**
 * The source of the key that a request is charged to.
 *
 * <pre>{@code
 * KeySource.clientAddress(ClientAddress.ofXForwardedFor("10.0.0.0/8"))
 * KeySource.header("X-Api-Key").hashed(secret)
 * KeySource.firstOf(KeySource.principal(), KeySource.clientAddress(ClientAddress.ofPeer()))
 * match -> tenants.of(match.request().headers("X-Tenant"))    // your own
 * }</pre>
 *
 * <p>A source that completes empty, or emits an empty string, finds no key; {@link
 * Rule.Builder#whenMissing(Rule.WhenMissing)} selects what happens then. A source must not block. Keys are not trusted:
 * they are encoded before they reach a store, and never disclosed to clients.
 *
 * <p>If a client sends a header, a query parameter or a cookie several times with different values, {@link
 * Rule.Builder#whenAmbiguous(Rule.WhenAmbiguous)} selects what happens: otherwise the client could be authenticated by
 * one value and limited by another.
 */
@FunctionalInterface
public interface KeySource {

    /**
     * Finds the key of a request.
     *
     * @param match the request and the rule
     * @return the key; empty if there is none
     */
    Mono<String> find(RuleMatch match);

    /**
     * Returns a source of the client's address.
     *
     * @param client how the address is determined
     * @return the source
     */
    static KeySource clientAddress(ClientAddress client) {
        Checks.present(client, "client", "ClientAddress.ofPeer()");
        return new KeySources.RequestKey(
                "address", false, match -> client.resolve(match.request().peer(), match.request()::headers));
    }

    /**
     * Returns a source of the value of a header field.
     *
     * @param name the name of the field
     * @return the source
     */
    static KeySource header(String name) {
        String field = checkName("header", name, "X-Api-Key");
        if (!HttpTokens.isToken(field)) {
            throw new IllegalArgumentException(
                    "header " + Text.quote(field) + " is not a header name: expected one, for example \"X-Api-Key\"");
        }
        return of("header:" + field, match -> onlyValue(match, match.request().headers(field)));
    }

    /**
     * Returns a source of the value of a query parameter.
     *
     * @param name the name of the parameter
     * @return the source
     */
    static KeySource query(String name) {
        String parameter = checkName("query parameter", name, "api_key");
        return of(
                "query:" + parameter, match -> onlyValue(match, match.request().queryParameters(parameter)));
    }

    /**
     * Returns a source of the value of a cookie.
     *
     * @param name the name of the cookie
     * @return the source
     */
    static KeySource cookie(String name) {
        String cookie = checkName("cookie", name, "session");
        return of("cookie:" + cookie, match -> onlyValue(match, match.request().cookies(cookie)));
    }

    /**
     * Returns a source of the name of the authenticated user. A rule with this key is decided after authentication. By
     * default it does not apply to requests that are not authenticated.
     *
     * @return the source
     */
    static KeySource principal() {
        return new KeySources.PrincipalKey();
    }

    /**
     * Returns a source of a path variable, such as {@code id} in {@code /users/{id}}.
     *
     * @param name the name of the variable
     * @return the source
     */
    static KeySource pathVariable(String name) {
        String variable = checkName("path variable", name, "id");
        return of(KeySources.PATH + variable, match -> match.pathVariable(variable));
    }

    /**
     * Returns a source of a request attribute, which the service sets.
     *
     * @param name the name of the attribute
     * @return the source
     */
    static KeySource attribute(String name) {
        String attribute = checkName("attribute", name, "tenant");
        return of("attribute:" + attribute, match -> match.request().attribute(attribute));
    }

    /**
     * Returns a source of one key for all requests.
     *
     * @param key the key, not empty
     * @return the source
     */
    static KeySource constant(String key) {
        String constant = checkName("constant key", key, "all");
        Optional<String> found = Optional.of(constant);
        return new KeySources.RequestKey("constant:" + constant, false, match -> found);
    }

    /**
     * Returns a source that combines several sources: each combination of their keys is a key. If one of them has no
     * key, there is none.
     *
     * @param sources at least two sources
     * @return the source
     */
    static KeySource joined(KeySource... sources) {
        return new KeySources.JoinedKey(KeySources.several(sources));
    }

    /**
     * Returns a source of the first key that several sources find. Keys of different sources are always different, even
     * with the same text.
     *
     * @param sources at least two sources
     * @return the source
     */
    static KeySource firstOf(KeySource... sources) {
        return new KeySources.FirstKey(KeySources.several(sources));
    }

    /**
     * Returns a source that replaces each key with its HMAC-SHA-256, truncated to 128 bits, for secret keys such as API
     * keys or sessions. Reading the store does not reveal them, and without the secret a guessed key cannot be checked
     * against the store.
     *
     * @param secret at least 16 bytes, the same in all instances; with another secret all counts start at zero
     * @return the source
     * @throws IllegalArgumentException if the secret is shorter
     */
    default KeySource hashed(byte[] secret) {
        return new KeySources.HashedKey(this, secret);
    }

    /**
     * Returns a source of a value that a request may not have.
     *
     * @param text the source as in settings
     * @param value the function that reads the value
     */
    private static KeySource of(String text, Function<RuleMatch, Optional<String>> value) {
        return new KeySources.RequestKey(text, true, value);
    }

    private static Optional<String> onlyValue(RuleMatch match, List<String> values) {
        if (values.isEmpty()) {
            return Optional.empty();
        }
        String first = values.get(0);
        for (int i = 1; i < values.size(); i++) {
            if (!Objects.equals(values.get(i), first)) {
                if (match.rule().whenAmbiguous() == Rule.WhenAmbiguous.DENY) {
                    throw new KeySources.AmbiguousKeyException();
                }
                return Optional.empty();
            }
        }
        return Optional.ofNullable(first);
    }

    private static String checkName(String what, String name, String example) {
        Checks.present(name, what, "\"" + example + "\"");
        if (name.isEmpty()) {
            throw new IllegalArgumentException(
                    what + " \"\" is empty: expected at least one character, for example \"" + example + "\"");
        }
        return name;
    }
}
