package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.http.HttpHeaders;
import org.springframework.web.server.ResponseStatusException;

/** The check of addresses from which no test can connect. */
class ThisMachineTest {

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"})
    void theLoopbackInterfaceIsThisMachine(String address) {
        assertThatCode(() -> ThisMachine.check(peer(address), host("localhost:8080")))
                .doesNotThrowAnyException();
    }

    @ParameterizedTest
    @ValueSource(strings = {"192.0.2.1", "10.0.0.1", "0.0.0.0", "2001:db8::1", "fe80::1", "::ffff:192.0.2.1"})
    void anyOtherAddressIsRefused(String address) {
        assertRefused(peer(address), host("localhost:8080"));
    }

    @Test
    void anUnknownAddressIsRefused() {
        assertRefused(null, host("localhost"));
        assertRefused(InetSocketAddress.createUnresolved("localhost", 1), host("localhost"));
    }

    @Test
    void exactlyOneHostOfThisMachineIsRequired() {
        assertRefused(peer("127.0.0.1"), new HttpHeaders());
        HttpHeaders two = host("localhost");
        two.add(HttpHeaders.HOST, "attacker.example");
        assertRefused(peer("127.0.0.1"), two);
        assertRefused(peer("127.0.0.1"), host("localhost.attacker.example"));
        assertRefused(peer("127.0.0.1"), host("192.0.2.1"));
        assertRefused(peer("127.0.0.1"), host("localhost@attacker.example"));
        assertRefused(peer("127.0.0.1"), host("attacker.example:8080\nlocalhost"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]:8080"})
    void eachNameOfThisMachineIsOurs(String name) {
        HttpHeaders ours = host(name);
        ours.set("X-Playground", "1");
        ours.set(HttpHeaders.ORIGIN, "http://" + name);
        assertThatCode(() -> {
                    ThisMachine.check(peer("127.0.0.1"), ours);
                    ThisMachine.checkIsOurPage(ours);
                })
                .doesNotThrowAnyException();
    }

    @ParameterizedTest
    @ValueSource(strings = {"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"})
    void aRequestThroughAProxyIsRefused(String field) {
        HttpHeaders headers = host("localhost");
        headers.set(field, "127.0.0.1");
        assertRefused(peer("127.0.0.1"), headers);
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://attacker.example", "null", "http://localhost:3000"})
    void aPageOfAnotherOriginIsRefused(String origin) {
        HttpHeaders headers = host("localhost");
        headers.set("X-Playground", "1");
        headers.set(HttpHeaders.ORIGIN, origin);
        assertThatThrownBy(() -> ThisMachine.checkIsOurPage(headers)).hasMessageContaining("expected http://localhost");
    }

    private static void assertRefused(@Nullable InetSocketAddress peer, HttpHeaders headers) {
        assertThatThrownBy(() -> ThisMachine.check(peer, headers))
                .isInstanceOf(ResponseStatusException.class)
                .hasMessageContaining("expected ");
    }

    private static InetSocketAddress peer(String address) {
        try {
            return new InetSocketAddress(InetAddress.getByName(address), 40_000);
        } catch (UnknownHostException e) {
            throw new IllegalArgumentException(address, e);
        }
    }

    private static HttpHeaders host(String host) {
        HttpHeaders headers = new HttpHeaders();
        headers.set(HttpHeaders.HOST, host);
        return headers;
    }
}
