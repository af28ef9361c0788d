package io.github.spillgate.http;

import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Scalars;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import reactor.core.publisher.Mono;

/** The built-in key sources. They return {@link Scalars scalars} for values that are known without a subscription. */
final class KeySources {

    /** The start of the text of a path variable. */
    static final String PATH = "path:";

    private static final char SEPARATOR = '|';
    private static final int LEAST_SECRET = 16;

    private KeySources() {}

    static List<KeySource> several(KeySource... sources) {
        Checks.some(sources, "sources", "KeySource.principal()");
        if (sources.length < 2) {
            throw new IllegalArgumentException(sources.length
                    + " key sources are not several: expected at least 2, for example KeySource.principal() and"
                    + " KeySource.clientAddress(ClientAddress.ofPeer())");
        }
        return List.of(sources);
    }

    private static void checkSecret(byte[] secret) {
        Checks.present(secret, "secret", "32 bytes drawn at random");
        if (secret.length < LEAST_SECRET) {
            throw new IllegalArgumentException(
                    "a secret of " + secret.length + " bytes is too short: expected at least " + LEAST_SECRET
                            + ", for example 32 that were drawn at random");
        }
    }

    /** Returns what is known of a source before there is a request. */
    static Traits traits(KeySource source) {
        return source instanceof BuiltInSource builtIn ? builtIn.traits() : Traits.OF_A_FUNCTION;
    }

    /**
     * What is known of a source before there is a request.
     *
     * @param needsPrincipal whether the key is known only after authentication
     * @param isOnlyForUsers whether the source never finds a key for a request that is not authenticated
     * @param mayBeMissing whether a request may have no key
     * @param pathVariables the path variables that it reads
     */
    record Traits(boolean needsPrincipal, boolean isOnlyForUsers, boolean mayBeMissing, Set<String> pathVariables) {

        /** A function of the user may find no key. */
        private static final Traits OF_A_FUNCTION = new Traits(false, false, true, Set.of());
    }

    /** A request has several different values where its key has one, and the rule denies it. */
    static final class AmbiguousKeyException extends RuntimeException {

        private static final long serialVersionUID = 1L;

        AmbiguousKeyException() {
            // Without a stack trace: clients can cause it.
            super("the request has several different values of its key: expected one", null, false, false);
        }
    }

    /** A source with known traits. */
    private interface BuiltInSource extends KeySource {

        Traits traits();
    }

    /**
     * A value of the request.
     *
     * @param text the source as in settings
     * @param mayBeMissing whether a request may be without the value
     * @param value the function that reads the value
     */
    record RequestKey(String text, boolean mayBeMissing, Function<RuleMatch, Optional<String>> value)
            implements BuiltInSource {

        @Override
        public Mono<String> find(RuleMatch match) {
            return Mono.justOrEmpty(value.apply(match));
        }

        @Override
        public Traits traits() {
            return new Traits(
                    false,
                    false,
                    mayBeMissing,
                    text.startsWith(PATH) ? Set.of(text.substring(PATH.length())) : Set.of());
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /** The authenticated user. */
    record PrincipalKey() implements BuiltInSource {

        @Override
        public Mono<String> find(RuleMatch match) {
            return match.request().principal();
        }

        @Override
        public Traits traits() {
            return new Traits(true, true, true, Set.of());
        }

        @Override
        public String toString() {
            return "principal";
        }
    }

    /** The combination of several keys. A separator within a key is escaped, so different combinations differ. */
    record JoinedKey(List<KeySource> sources) implements BuiltInSource {

        @Override
        public Mono<String> find(RuleMatch match) {
            List<Mono<String>> parts = new ArrayList<>(sources.size());
            for (KeySource source : sources) {
                Mono<String> part = source.find(match);
                if (Scalars.isScalar(part)) {
                    String key = Scalars.value(part);
                    if (key == null || key.isEmpty()) {
                        // The other sources cannot change this, so do not wait for them.
                        return Mono.empty();
                    }
                }
                parts.add(part);
            }
            return Scalars.map(
                    Scalars.collect(parts), all -> all.size() < parts.size() || all.contains("") ? null : join(all));
        }

        private static String join(List<String> parts) {
            StringBuilder key = new StringBuilder();
            for (String part : parts) {
                if (key.length() > 0) {
                    key.append(SEPARATOR);
                }
                append(key, part);
            }
            return key.toString();
        }

        private static void append(StringBuilder key, String part) {
            for (int i = 0; i < part.length(); i++) {
                char c = part.charAt(i);
                if (c == SEPARATOR || c == '\\') {
                    key.append('\\');
                }
                key.append(c);
            }
        }

        @Override
        public Traits traits() {
            List<Traits> all = sources.stream().map(KeySources::traits).toList();
            return new Traits(
                    all.stream().anyMatch(Traits::needsPrincipal),
                    all.stream().anyMatch(Traits::isOnlyForUsers),
                    all.stream().anyMatch(Traits::mayBeMissing),
                    pathVariables(all));
        }

        @Override
        public String toString() {
            return text(sources, " + ");
        }
    }

    /** The first key that exists. It starts with the number of its source: a header cannot pass for a principal. */
    record FirstKey(List<KeySource> sources) implements BuiltInSource {

        @Override
        public Mono<String> find(RuleMatch match) {
            return find(match, 0);
        }

        private Mono<String> find(RuleMatch match, int i) {
            if (i == sources.size()) {
                return Mono.empty();
            }
            Mono<String> key =
                    Scalars.map(sources.get(i).find(match), found -> found.isEmpty() ? null : numbered(i, found));
            if (Scalars.isScalar(key)) {
                return Scalars.value(key) == null ? find(match, i + 1) : key;
            }
            return key.switchIfEmpty(Mono.defer(() -> find(match, i + 1)));
        }

        private static String numbered(int i, String key) {
            return (i + 1) + String.valueOf(SEPARATOR) + key;
        }

        @Override
        public Traits traits() {
            List<Traits> all = sources.stream().map(KeySources::traits).toList();
            return new Traits(
                    all.stream().anyMatch(Traits::needsPrincipal),
                    all.stream().allMatch(Traits::isOnlyForUsers),
                    all.stream().allMatch(Traits::mayBeMissing),
                    pathVariables(all));
        }

        @Override
        public String toString() {
            return text(sources, " | ");
        }
    }

    /** The HMAC of another source's key. */
    static final class HashedKey implements BuiltInSource {

        private static final String ALGORITHM = "HmacSHA256";
        private static final int LENGTH = 16;

        private final KeySource source;
        private final Mac mac;

        HashedKey(KeySource source, byte[] secret) {
            checkSecret(secret);
            this.source = source;
            try {
                mac = Mac.getInstance(ALGORITHM);
                mac.init(new SecretKeySpec(secret, ALGORITHM));
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("this JDK has no " + ALGORITHM, e);
            }
            hash("");
        }

        @Override
        public Mono<String> find(RuleMatch match) {
            return Scalars.map(source.find(match), key -> key.isEmpty() ? null : hash(key));
        }

        /** A Mac is not thread-safe; cloning one is cheaper than looking one up. */
        private String hash(String key) {
            try {
                byte[] hash = ((Mac) mac.clone()).doFinal(bytes(key));
                return Base64.getUrlEncoder().withoutPadding().encodeToString(Arrays.copyOf(hash, LENGTH));
            } catch (CloneNotSupportedException e) {
                throw new IllegalStateException(mac.getProvider() + " has no " + ALGORITHM + " that can be copied", e);
            }
        }

        /** Uses two bytes for each character: UTF-8 would encode all unpaired surrogates as the same byte. */
        private static byte[] bytes(String key) {
            byte[] bytes = new byte[2 * key.length()];
            for (int i = 0; i < key.length(); i++) {
                bytes[2 * i] = (byte) (key.charAt(i) >> 8);
                bytes[2 * i + 1] = (byte) key.charAt(i);
            }
            return bytes;
        }

        @Override
        public Traits traits() {
            return KeySources.traits(source);
        }

        @Override
        public String toString() {
            return "hashed(" + source + ")";
        }
    }

    private static Set<String> pathVariables(List<Traits> all) {
        return all.stream()
                .flatMap(one -> one.pathVariables().stream())
                .collect(Collectors.toCollection(LinkedHashSet::new));
    }

    private static String text(List<KeySource> sources, String between) {
        return String.join(between, sources.stream().map(KeySource::toString).toList());
    }
}
