package io.github.spillgate.http;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.internal.syntax.PathForms;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The other forms of a path, and what they mean for rules. */
class PathFormsTest extends RulesFixture {

    @ParameterizedTest
    @ValueSource(strings = {"/", "/a", "/a/b.txt", "/a;x=1/b", "/a b", "/a...b", "*", ""})
    void aPlainPathHasNoOtherForm(String path) {
        PathForms forms = PathForms.of(path);
        assertThat(forms.others()).isEmpty();
        assertThat(forms.isAnyPath()).isFalse();
    }

    @ParameterizedTest
    @CsvSource({
        "/a//b, /a/b",
        "//a, /a",
        "/a/./b, /a/b",
        "/a/, /a",
        "/a/., /a",
        "/a\\b, /a/b",
        "/a%2Fb, /a/b",
        "/a%2fb, /a/b",
        "/a%5Cb, /a/b",
        "/a/%2e/b, /a/b",
        "/%61, /a",
        "/%C3%A4, /\u00e4",
        "/a%, ",
        "/a%zz, ",
        "/a%2, ",
        "/.a, ",
        "/.../a, "
    })
    void aPathIsDecodedAndCleaned(String path, String form) {
        assertThat(PathForms.of(path).others()).isEqualTo(form == null ? List.of() : List.of(form));
    }

    @Test
    void theFormThatIsDecodedTwiceIsFirst() {
        assertThat(PathForms.of("/a%252Fb").others()).containsExactly("/a/b", "/a%2Fb");
        assertThat(PathForms.of("/a%25252Fb").others()).containsExactly("/a%2Fb", "/a%252Fb");
    }

    @ParameterizedTest
    @ValueSource(strings = {"/..", "/a/../b", "/a%2F..", "/a/%2e%2e/b", "/a/..%5Cb", "/a/%252e./b", "/a\\..\\b"})
    void aPathWithTwoDotsMayBeAny(String path) {
        assertThat(PathForms.of(path).isAnyPath()).isTrue();
    }

    @Test
    void aRuleAppliesIfAnyFormMatches() {
        Rules rules = rules(address("a", 1).paths("/a/b"));
        assertAllowed(rules, SentRequest.get("/a/b"));
        for (String path : List.of("/a//b", "/a%2Fb", "/a%252Fb", "/a/b/", "/x/..%2fa/b", "/x/..")) {
            assertDenied(rules, SentRequest.get(path));
        }
        assertAllowed(rules, SentRequest.get("/a%2Fc"));
    }

    @Test
    void aPathIsExcludedIfAllFormsMatch() {
        Rules rules = rules(address("a", 1).excludePaths("/public*", "/dir/"));
        assertAllowed(rules, SentRequest.get("/other"));
        for (String path : List.of("/public/..%2fa", "/public/../a", "/publi%63")) {
            assertDenied(rules, SentRequest.get(path));
        }
        for (String path : List.of("/public%2Fa", "/public//a", "/public/a/", "/dir/")) {
            assertAllowed(rules, SentRequest.get(path));
        }
    }

    /** Otherwise a client could choose its key. */
    @Test
    void aPathThatMayBeAnyHasNoVariables() {
        Rules rules = rules(Rule.named("a")
                .paths("/a*")
                .key(KeySource.pathVariable("pattern"))
                .limit(Limit.perMinute(1)));
        assertAllowed(rules, SentRequest.get("/a/1"));
        assertAllowed(rules, SentRequest.get("/a/..%2F2"));
        assertDenied(rules, SentRequest.get("/a/..%2F3"));
    }
}
