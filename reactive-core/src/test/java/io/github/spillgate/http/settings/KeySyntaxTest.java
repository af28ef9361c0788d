package io.github.spillgate.http.settings;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;
import reactor.core.publisher.Mono;

class KeySyntaxTest {

    private static final KeySource OWN = new KeySource() {
        @Override
        public Mono<String> find(RuleMatch match) {
            return Mono.just("own");
        }

        @Override
        public String toString() {
            return "bean:tenantKey";
        }
    };

    private static final KeySyntax SYNTAX = KeySyntax.of(ClientAddress.ofPeer())
            .beans(name -> name.equals("tenantKey") ? Optional.of(OWN) : Optional.empty())
            .secret(new byte[16]);

    private static final List<String> SOURCES = List.of(
            "address",
            "principal",
            "header:X-Api-Key",
            "query:api_key",
            "cookie:session",
            "path:id",
            "attribute:tenant",
            "constant:every:body",
            "bean:tenantKey",
            "hashed(header:X-Api-Key)",
            "principal | address",
            "principal | header:X-Api-Key | address",
            "address + header:User-Agent",
            "principal | address + header:User-Agent",
            "hashed(principal | address + query:a) + address");

    @ParameterizedTest
    @FieldSource("SOURCES")
    void aSourceIsWrittenAsItIsRead(String text) {
        assertThat(SYNTAX.parse(text)).hasToString(text);
        assertThat(SYNTAX.parse("  " + text.replace(" ", "   ") + " ")).hasToString(text);
        assertThat(SYNTAX.parse(text.replace(" ", ""))).hasToString(text);
    }

    @Test
    void eachKindIsTestedHereAndListedInTheDocumentation() throws IOException {
        String page = Files.readString(Snippets.ROOT.resolve("docs/keys-and-proxies.md"));
        String javadoc = Files.readString(
                Snippets.ROOT.resolve("reactive-core/src/main/java/io/github/spillgate/http/settings/KeySyntax.java"));
        assertThat(KeySyntax.kinds()).allSatisfy(kind -> {
            assertThat(SOURCES).anyMatch(source -> source.startsWith(kind));
            assertThat(page).containsPattern("(?m)^\\|.*`" + kind);
            assertThat(javadoc).containsPattern("<td>.*\\{@code " + kind);
        });
    }

    @ParameterizedTest
    @CsvSource(
            delimiterString = " -> ",
            quoteCharacter = '`',
            value = {
                "adress -> cannot be read at character 1: expected address, principal, header:…",
                "principal | adress -> cannot be read at character 13",
                "headers:X -> cannot be read at character 1",
                "header: -> cannot be read at character 8: expected a name after \"header:\"",
                "header -> cannot be read at character 1",
                "address address -> cannot be read at character 9: expected nothing more, or | or + before another key",
                "header:X Api -> cannot be read at character 10: expected nothing more, or | or + before another key; "
                        + "a name has no space in it, for example header:X-Api-Key",
                "address | -> cannot be read at character 10",
                "| address -> cannot be read at character 1",
                "address ++ address -> cannot be read at character 10",
                "hashed(address -> cannot be read at character 15: expected a closing parenthesis",
                "hash(address) -> cannot be read at character 1",
                "hashed() -> cannot be read at character 8",
                "(address) -> cannot be read at character 1",
                "bean:other -> names a key source \"other\" that is not there: expected the name of a bean",
            })
    void anInvalidKeyIsReportedWithItsPosition(String text, String told) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> SYNTAX.parse(text))
                .withMessageContaining("\"" + text + "\"")
                .withMessageContaining(told);
    }

    @Test
    void anEmptyTextIsNoSource() {
        assertThatIllegalArgumentException().isThrownBy(() -> SYNTAX.parse("")).withMessageContaining("at character 1");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> SYNTAX.parse("   "))
                .withMessageContaining("character 4");
    }

    @Test
    void hashingWithoutASecretIsRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> KeySyntax.of(ClientAddress.ofPeer()).parse("hashed(address)"))
                .withMessage(
                        "key \"hashed(address)\" is to be hashed, but there is no secret: expected random text of at"
                                + " least 16 bytes, the same in all instances, as spillgate.secret in Spring Boot,"
                                + " \"secret\" in the options of Vert.x, or KeySyntax.secret(…), for example the output"
                                + " of openssl rand -base64 32");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> SYNTAX.secret(new byte[3]))
                .withMessageStartingWith("a secret of 3 bytes is too short: expected");
    }
}
