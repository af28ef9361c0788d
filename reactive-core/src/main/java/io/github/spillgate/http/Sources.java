package io.github.spillgate.http;

import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import reactor.core.publisher.Mono;

/** The key sources that come with us. What is at hand is found without a subscription: see {@link AtOnce}. */
final class Sources {

    private static final char SEPARATOR = '|';
    private static final int LEAST_SECRET = 16;

    private Sources() {}

    static List<KeySource> several(KeySource... sources) {
        Objects.requireNonNull(sources, "sources are null: expected some, for example KeySource.principal()");
        if (sources.length < 2) {
            throw new IllegalArgumentException(sources.length
                    + " key sources are not several: expected at least 2, for example KeySource.principal() and"
                    + " KeySource.clientAddress(ClientAddress.ofPeer())");
        }
        return List.of(sources);
    }

    static void checkSecret(byte[] secret) {
        Objects.requireNonNull(
                secret, "secret is null: expected at least " + LEAST_SECRET + " bytes, for example 32 drawn at random");
        if (secret.length < LEAST_SECRET) {
            throw new IllegalArgumentException(
                    "a secret of " + secret.length + " bytes is too short: expected at least " + LEAST_SECRET
                            + ", for example 32 that were drawn at random");
        }
    }

    /** Whether the key of this source is known only after authentication. */
    static boolean needsPrincipal(KeySource source) {
        return source instanceof Composed composed && composed.needsPrincipal();
    }

    /**
     * Returns whether it never finds a key for a request that is not authenticated, as an alternative to the user
     * would.
     */
    static boolean isOnlyForUsers(KeySource source) {
        return source instanceof Composed composed && composed.isOnlyForUsers();
    }

    /** Whether a request may have no key of this source. Of a function of the user's that is not known. */
    static boolean mayBeMissing(KeySource source) {
        if (source instanceof AtHand atHand) {
            return !atHand.isOfEachRequest;
        }
        return !(source instanceof Composed composed) || composed.mayBeMissing();
    }

    /** A source of which it is known what it needs. */
    private interface Composed extends KeySource {

        boolean needsPrincipal();

        boolean isOnlyForUsers();

        boolean mayBeMissing();
    }

    /**
     * What is in the request.
     *
     * @param isOfEachRequest whether each request has it, as far as a client is concerned
     */
    record AtHand(String text, boolean isOfEachRequest, Function<Match, Optional<String>> find) implements KeySource {

        @Override
        public Mono<String> find(Match match) {
            return Mono.justOrEmpty(find.apply(match));
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /** Who has been authenticated. */
    record Principal() implements Composed {

        @Override
        public Mono<String> find(Match match) {
            return match.request().principal();
        }

        @Override
        public boolean needsPrincipal() {
            return true;
        }

        @Override
        public boolean isOnlyForUsers() {
            return true;
        }

        @Override
        public boolean mayBeMissing() {
            return true;
        }

        @Override
        public String toString() {
            return "principal";
        }
    }

    /** Several together. No two combinations have the same text: a separator in a part is marked. */
    record Joined(List<KeySource> sources) implements Composed {

        @Override
        public Mono<String> find(Match match) {
            List<Mono<String>> parts = new ArrayList<>(sources.size());
            for (KeySource source : sources) {
                Mono<String> part = source.find(match);
                if (AtOnce.is(part)) {
                    String key = AtOnce.get(part);
                    if (key == null || key.isEmpty()) {
                        // Whatever the others say, and however long they take.
                        return Mono.empty();
                    }
                }
                parts.add(part);
            }
            return AtOnce.map(
                    AtOnce.all(parts), all -> all.size() < parts.size() || all.contains("") ? null : join(all));
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
        public boolean needsPrincipal() {
            return sources.stream().anyMatch(Sources::needsPrincipal);
        }

        @Override
        public boolean isOnlyForUsers() {
            return sources.stream().anyMatch(Sources::isOnlyForUsers);
        }

        @Override
        public boolean mayBeMissing() {
            return sources.stream().anyMatch(Sources::mayBeMissing);
        }

        @Override
        public String toString() {
            return text(sources, " + ");
        }
    }

    /** The first that has a key, which begins with its number, so that a header cannot pass for a principal. */
    record FirstOf(List<KeySource> sources) implements Composed {

        @Override
        public Mono<String> find(Match match) {
            return find(match, 0);
        }

        private Mono<String> find(Match match, int i) {
            if (i == sources.size()) {
                return Mono.empty();
            }
            Mono<String> here = AtOnce.map(sources.get(i).find(match), key -> key.isEmpty() ? null : tagged(i, key));
            if (AtOnce.is(here)) {
                return AtOnce.get(here) == null ? find(match, i + 1) : here;
            }
            return here.switchIfEmpty(Mono.defer(() -> find(match, i + 1)));
        }

        private static String tagged(int i, String key) {
            return (i + 1) + String.valueOf(SEPARATOR) + key;
        }

        @Override
        public boolean needsPrincipal() {
            return sources.stream().anyMatch(Sources::needsPrincipal);
        }

        @Override
        public boolean isOnlyForUsers() {
            return sources.stream().allMatch(Sources::isOnlyForUsers);
        }

        @Override
        public boolean mayBeMissing() {
            return sources.stream().allMatch(Sources::mayBeMissing);
        }

        @Override
        public String toString() {
            return text(sources, " | ");
        }
    }

    /** The HMAC of another source's key. */
    static final class Hashed implements Composed {

        private static final String ALGORITHM = "HmacSHA256";
        private static final int LENGTH = 16;

        private final KeySource source;
        private final Mac mac;

        Hashed(KeySource source, byte[] secret) {
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
        public Mono<String> find(Match match) {
            return AtOnce.map(source.find(match), key -> key.isEmpty() ? null : hash(key));
        }

        /** A Mac is for one thread at a time; a copy of it costs less than to look for another one. */
        private String hash(String key) {
            try {
                byte[] hash = ((Mac) mac.clone()).doFinal(bytes(key));
                return Base64.getUrlEncoder().withoutPadding().encodeToString(Arrays.copyOf(hash, LENGTH));
            } catch (CloneNotSupportedException e) {
                throw new IllegalStateException(mac.getProvider() + " has no " + ALGORITHM + " that can be copied", e);
            }
        }

        /** Two bytes for each character: in UTF-8 halves of surrogate pairs would all be one. */
        private static byte[] bytes(String key) {
            byte[] bytes = new byte[2 * key.length()];
            for (int i = 0; i < key.length(); i++) {
                bytes[2 * i] = (byte) (key.charAt(i) >> 8);
                bytes[2 * i + 1] = (byte) key.charAt(i);
            }
            return bytes;
        }

        @Override
        public boolean needsPrincipal() {
            return Sources.needsPrincipal(source);
        }

        @Override
        public boolean isOnlyForUsers() {
            return Sources.isOnlyForUsers(source);
        }

        @Override
        public boolean mayBeMissing() {
            return Sources.mayBeMissing(source);
        }

        @Override
        public String toString() {
            return "hashed(" + source + ")";
        }
    }

    private static String text(List<KeySource> sources, String between) {
        return String.join(between, sources.stream().map(KeySource::toString).toList());
    }
}
