package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.address.ClientAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

class KeySourceTest {

    private static final byte[] SECRET = "0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    private static final KeySource NONE = match -> Mono.empty();
    private static final KeySource LATER =
            match -> Mono.delay(Duration.ofMillis(1)).thenReturn("later");

    @Test
    void everyPartOfARequestMayBeTheKey() {
        SentRequest request = SentRequest.get("/")
                .from("2001:db8::7")
                .header("X-Api-Key", "k")
                .query("api_key", "q")
                .cookie("session", "s")
                .variable("id", "v")
                .attribute("tenant", "t")
                .by("somebody");
        assertThat(key(KeySource.clientAddress(ClientAddress.ofPeer()), request))
                .isEqualTo("2001:db8::/64");
        assertThat(key(KeySource.header("x-api-key"), request)).isEqualTo("k");
        assertThat(key(KeySource.query("api_key"), request)).isEqualTo("q");
        assertThat(key(KeySource.cookie("session"), request)).isEqualTo("s");
        assertThat(key(KeySource.pathVariable("id"), request)).isEqualTo("v");
        assertThat(key(KeySource.attribute("tenant"), request)).isEqualTo("t");
        assertThat(key(KeySource.principal(), request)).isEqualTo("somebody");
        assertThat(key(KeySource.constant("all"), request)).isEqualTo("all");
    }

    @Test
    void aMissingValueIsNoKey() {
        SentRequest request = SentRequest.get("/").from("not an address");
        for (KeySource source : Arrays.asList(
                KeySource.clientAddress(ClientAddress.ofPeer()),
                KeySource.header("X-Api-Key"),
                KeySource.query("api_key"),
                KeySource.cookie("session"),
                KeySource.pathVariable("id"),
                KeySource.attribute("tenant"),
                KeySource.principal())) {
            assertThat(key(source, request)).as(source.toString()).isNull();
        }
    }

    @Test
    void aRequestWithDifferentValuesIsAmbiguous() {
        SentRequest twice = SentRequest.get("/")
                .header("X-Api-Key", "mine")
                .header("X-Api-Key", "yours")
                .query("api_key", "mine")
                .query("api_key", "yours")
                .cookie("session", "mine")
                .cookie("session", "yours");
        for (KeySource source :
                List.of(KeySource.header("X-Api-Key"), KeySource.query("api_key"), KeySource.cookie("session"))) {
            assertThatThrownBy(() -> key(source, twice)).isInstanceOf(KeySources.AmbiguousKeyException.class);
        }
        assertThat(key(
                        KeySource.header("X-Api-Key"),
                        SentRequest.get("/").header("X-Api-Key", "a").header("X-Api-Key", "a")))
                .isEqualTo("a");
    }

    @Test
    void noTwoCombinationsAreOneKey() {
        KeySource both = KeySource.joined(KeySource.header("A"), KeySource.header("B"));
        assertThat(key(both, pair("a", "b"))).isEqualTo("a|b");
        assertThat(key(both, pair("a|b", "c"))).isNotEqualTo(key(both, pair("a", "b|c")));
        assertThat(key(both, pair("a\\", "b"))).isNotEqualTo(key(both, pair("a", "\\b")));
        assertThat(key(both, pair("a\\|b", "c"))).isNotEqualTo(key(both, pair("a\\", "b|c")));
        assertThat(key(both, pair("a\\", "|c"))).isNotEqualTo(key(both, pair("a|", "c")));
    }

    @Test
    void aJoinedKeyNeedsAllItsParts() {
        KeySource both = KeySource.joined(KeySource.header("A"), KeySource.header("B"));
        assertThat(key(both, SentRequest.get("/").header("A", "a"))).isNull();
        assertThat(key(both, pair("a", ""))).isNull();
        assertThat(key(KeySource.joined(LATER, NONE), SentRequest.get("/"))).isNull();
        assertThat(key(KeySource.joined(LATER, KeySource.constant("c"), LATER), SentRequest.get("/")))
                .isEqualTo("later|c|later");
    }

    /** With its place, so that a client cannot forge the key of another. */
    @Test
    void theFirstKeyThatExistsIsTheKey() {
        KeySource first = KeySource.firstOf(
                KeySource.principal(), KeySource.header("X-Api-Key"), KeySource.clientAddress(ClientAddress.ofPeer()));
        assertThat(key(first, SentRequest.get("/").by("p").header("X-Api-Key", "k")))
                .isEqualTo("1|p");
        assertThat(key(first, SentRequest.get("/").header("X-Api-Key", "k"))).isEqualTo("2|k");
        assertThat(key(first, SentRequest.get("/").header("X-Api-Key", ""))).isEqualTo("3|192.0.2.1");
        assertThat(key(KeySource.firstOf(NONE, LATER), SentRequest.get("/"))).isEqualTo("2|later");
        assertThat(key(KeySource.firstOf(NONE, NONE), SentRequest.get("/"))).isNull();
        KeySource noneLater = match -> Mono.delay(Duration.ofMillis(1)).then(Mono.empty());
        assertThat(key(KeySource.firstOf(NONE, noneLater, KeySource.constant("c"), LATER), SentRequest.get("/")))
                .isEqualTo("3|c");
    }

    @Test
    void aSecretKeyIsHashed() throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(SECRET, "HmacSHA256"));
        byte[] hash = mac.doFinal("geheim-ü".getBytes(StandardCharsets.UTF_16BE));
        KeySource hashed = KeySource.header("X-Api-Key").hashed(SECRET);
        assertThat(key(hashed, SentRequest.get("/").header("X-Api-Key", "geheim-ü")))
                .isEqualTo(Base64.getUrlEncoder().withoutPadding().encodeToString(Arrays.copyOf(hash, 16)))
                .hasSize(22);
        assertThat(key(hashed, SentRequest.get("/"))).isNull();
        assertThat(key(LATER.hashed(SECRET), SentRequest.get("/"))).hasSize(22);
        assertThat(hashed).hasToString("hashed(header:X-Api-Key)");
    }

    /** Otherwise users with names in another script could share a limit. */
    @Test
    void keysThatDifferInOneCharacterHaveDifferentHashes() {
        KeySource hashed = KeySource.header("X-Api-Key").hashed(SECRET);
        List<String> keys = List.of("a", "\u0101", "\u0161", "\u0261", "?", "\ud801", "\ud802", "a\0", "\0a");
        assertThat(keys.stream().map(key -> key(hashed, SentRequest.get("/").header("X-Api-Key", key))))
                .doesNotHaveDuplicates();
    }

    /** Otherwise a rule by address would not limit attempts to guess passwords. */
    @Test
    void aRuleWaitsForAuthenticationOnlyIfSomethingInItsKeyDoes() {
        KeySource address = KeySource.clientAddress(ClientAddress.ofPeer());
        KeySource header = KeySource.header("A");
        KeySource principal = KeySource.principal();
        for (KeySource early : List.of(
                KeySource.joined(address, header),
                KeySource.firstOf(header, address),
                KeySource.firstOf(KeySource.joined(header, address), address).hashed(SECRET))) {
            assertThat(rule(early).phase()).as(early.toString()).isEqualTo(Phase.BEFORE_AUTHENTICATION);
        }
        for (KeySource late : List.of(
                principal,
                KeySource.joined(address, principal),
                KeySource.firstOf(principal, address),
                KeySource.firstOf(KeySource.joined(header, principal), address).hashed(SECRET))) {
            assertThat(rule(late).phase()).as(late.toString()).isEqualTo(Phase.AFTER_AUTHENTICATION);
        }
    }

    /** The tokens of RFC 9110. */
    @Test
    void invalidHeaderNamesAreRejected() {
        String others = "!#$%&'*+-.^_`|~";
        for (char c = 0; c < 0x180; c++) {
            String name = "X" + c;
            boolean isToken = c < 0x80 && (Character.isLetterOrDigit(c) || others.indexOf(c) >= 0);
            if (isToken) {
                assertThat(KeySource.header(name)).hasToString("header:" + name);
            } else {
                assertThatIllegalArgumentException()
                        .as("character %d", (int) c)
                        .isThrownBy(() -> KeySource.header(name))
                        .withMessageContaining("is not a header name");
            }
        }
    }

    @Test
    void invalidArgumentsAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> KeySource.header("a").hashed(new byte[15]))
                .withMessage(
                        "a secret of 15 bytes is too short: expected at least 16, for example 32 that were drawn at"
                                + " random");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> KeySource.header(""))
                .withMessage("header \"\" is empty: expected at least one character, for example \"X-Api-Key\"");
        assertThatNullPointerException()
                .isThrownBy(() -> KeySource.cookie(null))
                .withMessage("cookie is null: expected one, for example \"session\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> KeySource.joined(KeySource.principal()))
                .withMessageStartingWith("1 key sources are not several: expected at least 2");
    }

    private static SentRequest pair(String a, String b) {
        return SentRequest.get("/").header("A", a).header("B", b);
    }

    private static Rule rule(KeySource source) {
        return Rule.named("r").key(source).limit(Limit.perMinute(1)).build();
    }

    private static String key(KeySource source, SentRequest request) {
        return source.find(new RuleMatch(rule(source), request, request.pathVariables()))
                .block(Duration.ofSeconds(30));
    }
}
