package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Spellings of paths, queries and cookies, of which none may bypass a limit. */
public abstract class HttpBypassContract extends HttpContract {

    private static final String HELLO = """
        /hello /hello?x=y /hello? /hello/ /hello// //hello ///hello /./hello /hello/. /a/../hello
        /a/b/../../hello /../hello /hello/a/.. /%68ello /%68%65%6C%6c%6f /%2568ello /%2e/hello
        /a/%2e%2e/hello /a/%2E%2E/hello /hello%2F /%2Fhello /%2fhello /hello%20 /hello%00 /hello% /hello%zz
        /hello;x=y /;x=y/hello /hello; /hello%3Bx /hello#x /HELLO /Hello /hello. /hello.json /hell\u00f6
        \\hello /\\hello /a\\..\\hello /%5Chello hello http://localhost/hello http://localhost//hello
        http://localhost/a/../hello HTTP://localhost/hello http:/hello http:hello //localhost/hello ?/hello
        /?/../hello *
        """;

    private static final String ITEM_1 = """
        /items/1 /items/1/ /items//1 //items/1 /items/%31 /%69tems/1 /items/1?2 /items/2/../1
        /items/%32/../%31 /items/./1 /items/1;x=y /items;x=y/1 /items/1%3B /items/2%2F..%2F1
        /items/%2e%2e/items/1
        """;

    protected HttpBypassContract(HttpAdapter adapter) {
        super(adapter);
    }

    static Stream<String> spellingsOfHello() {
        return HELLO.lines().flatMap(line -> Stream.of(line.split(" ")));
    }

    static Stream<String> spellingsOfItem1() {
        return ITEM_1.lines().flatMap(line -> Stream.of(line.split(" ")));
    }

    @ParameterizedTest
    @MethodSource("spellingsOfHello")
    void noSpellingOfAPathBypassesItsRule(String path) {
        serve(address("hello", 1).paths("/hello"));
        client.get("/hello");
        assertThat(handled).hasValue(1);
        for (String method : List.of("GET", "HEAD")) {
            String status = client.answerTo(method + " " + path + " HTTP/1.1", "Host: localhost");
            assertThat(status).doesNotContain(" 200 ").doesNotContain(" 5");
        }
        assertThat(handled).hasValue(1);
    }

    /** HTTP methods are case-sensitive (RFC 9110), and no router takes these for GET. */
    @ParameterizedTest
    @ValueSource(strings = {"get", "Get", "gEt"})
    void noSpellingOfAMethodBypassesItsRule(String method) {
        serve(address("hello", 1).paths("/hello").methods("GET"));
        client.get("/hello");
        assertThat(handled).hasValue(1);
        assertThat(client.answerTo(method + " /hello HTTP/1.1", "Host: localhost"))
                .contains(" 4")
                .doesNotContain(" 5");
        assertThat(handled).hasValue(1);
    }

    @ParameterizedTest
    @MethodSource("spellingsOfItem1")
    void everySpellingOfAPathVariableIsTheSameKey(String path) {
        serve(Rule.named("item")
                .paths(pattern("/items/{id}"))
                .key(KeySource.pathVariable("id"))
                .limit(Limit.perMinute(1)));
        client.get("/items/1");
        String answered = client.pipelined(List.of(path)).get(0).body();
        assertThat(answered).isNotEqualTo("item 1");
    }

    @Test
    void aMalformedQueryDoesNotBypassALimit() {
        serve(Rule.named("key").key(KeySource.query("api_key")).limit(Limit.perMinute(1)));
        assertThat(client.get("/hello?other=1").statusCode()).isEqualTo(200);
        for (String query : List.of(
                "other=2",
                "api_key",
                "api_key=",
                "api_key=%zz",
                "%zz=1&api_key",
                "api_key=a&api_key=b",
                "&&",
                "=",
                "%")) {
            assertThat(client.statusLine("/hello?" + query)).as(query).contains(" 4");
        }
        assertThat(handled).hasValue(1);
    }

    @Test
    void malformedCookiesDoNotBypassALimit() {
        serve(Rule.named("key").key(KeySource.cookie("session")).limit(Limit.perMinute(1)));
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        for (String cookie : List.of("session", "session=", "=", ";", "\"", "session=a; session=b", "session=\u0001")) {
            assertThat(client.answerTo("GET /hello HTTP/1.1", "Host: localhost", "Cookie: " + cookie))
                    .as(cookie)
                    .contains(" 4");
        }
        assertThat(client.get("/hello", "Cookie", "session=a", "Cookie", "session=b")
                        .statusCode())
                .isEqualTo(400);
        assertThat(handled).hasValue(1);
    }
}
