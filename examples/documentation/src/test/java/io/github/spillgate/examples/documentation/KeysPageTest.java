package io.github.spillgate.examples.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The examples of client addresses and keys on the page of keys. */
class KeysPageTest {

    private static final Pattern ROW =
            Pattern.compile("(?m)^\\| `([^`]+)` \\| (?:`([^`]+)`)? ?\\| `([^`]+)` \\| [^|]+ \\|$");
    private static final Pattern FORM =
            Pattern.compile("(?m)^\\| [A-Z6][^|]* \\| `([0-9a-f:.]+)` \\| `([0-9a-f:./]+)`[^|]* \\|$");
    private static final Pattern KEY = Pattern.compile("(?m)^\\| (`[^|]*(?:\\\\\\|[^|]*)*`) \\| `[^|]*` \\| ");
    private static final Pattern CODE = Pattern.compile("`([^`]+)`");
    private static final ClientAddress CLIENT = ClientAddress.ofXForwardedFor("10.0.0.0/8", "2001:db8:1::/48");

    @TestFactory
    Stream<DynamicTest> eachHeaderResolvesToTheClientOfItsRow() throws IOException {
        List<MatchResult> rows = ROW.matcher(page()).results().toList();
        assertThat(rows).hasSizeGreaterThan(7);
        return rows.stream()
                .map(row -> DynamicTest.dynamicTest(row.group(), () -> {
                    List<String> lines = row.group(2) == null ? List.of() : List.of(row.group(2));
                    assertThat(CLIENT.resolve(row.group(1), name -> lines)).hasValue(row.group(3));
                }));
    }

    @TestFactory
    Stream<DynamicTest> eachAddressHasTheKeyOfItsRow() throws IOException {
        List<MatchResult> rows = FORM.matcher(page()).results().toList();
        assertThat(rows).hasSizeGreaterThan(5);
        return rows.stream()
                .map(row -> DynamicTest.dynamicTest(row.group(), () -> {
                    assertThat(CLIENT.resolve(row.group(1), name -> List.of())).hasValue(row.group(2));
                    assertThat(CLIENT.resolve("10.0.0.4", name -> List.of(row.group(1))))
                            .hasValue(row.group(2));
                }));
    }

    @Test
    void everyKeyOnThePageParses() throws IOException {
        KeySyntax syntax =
                KeySyntax.of(CLIENT).secret(new byte[16]).beans(name -> Optional.of(KeySource.constant(name)));
        String page = page();
        List<String> keys = KEY.matcher(page.substring(page.indexOf("\n## Keys"), page.indexOf("\n## Without a key")))
                .results()
                .flatMap(row -> CODE.matcher(row.group(1)).results())
                .map(code -> code.group(1).replace("\\|", "|"))
                .toList();
        assertThat(keys).hasSizeGreaterThan(10);
        keys.forEach(key -> assertThat(syntax.parse(key)).isNotNull());
    }

    private static String page() throws IOException {
        return Files.readString(Snippets.ROOT.resolve("docs/keys-and-proxies.md"));
    }
}
