package io.github.spillgate.examples.webflux;

import io.github.spillgate.webflux.ExchangeRequest;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;

/** Checks that a request comes from this machine, and from our page instead of another page in the browser. */
final class ThisMachine {

    private static final String OUR_PAGE = "X-Playground";

    private static final Pattern LOOPBACK = Pattern.compile("127(\\.[0-9]{1,3}){3}|0:0:0:0:0:0:0:1(%.*)?");
    private static final Pattern OUR_HOSTS =
            Pattern.compile("(localhost|127\\.0\\.0\\.1|\\[::1])(:[0-9]+)?", Pattern.CASE_INSENSITIVE);
    private static final List<String> PROXY_HEADERS =
            List.of("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via");

    private ThisMachine() {}

    /**
     * Checks a request that reads. A page of another site cannot read our response, because we allow no other origin.
     * The exception is DNS rebinding, which {@code Host} reveals: it then contains the name of that site.
     */
    static void checkRead(ServerWebExchange exchange) {
        ServerHttpRequest request = exchange.getRequest();
        // Check both the connection and the request: with server.forward-headers-strategy, Spring replaces the address
        // of the request by that of a header, which any client can send, and removes the header.
        checkIsLoopback(ExchangeRequest.of(exchange).peer());
        check(request.getRemoteAddress(), request.getHeaders());
    }

    /**
     * Checks a request that changes something (CSRF). A page of another site can send a form, or a request like one by
     * script, without reading the response. Neither can have a custom header: the browser would send a preflight first,
     * which we do not allow. {@code Origin} is checked too, if the browser sends it.
     */
    static void checkChange(ServerWebExchange exchange) {
        checkRead(exchange);
        checkIsOurPage(exchange.getRequest().getHeaders());
    }

    static void check(@Nullable InetSocketAddress peer, HttpHeaders headers) {
        InetAddress address = peer == null ? null : peer.getAddress();
        checkIsLoopback(address == null ? null : address.getHostAddress());
        // Behind a proxy, the peer is the proxy and not the client.
        PROXY_HEADERS.stream().filter(headers::containsHeader).findFirst().ifPresent(name -> {
            throw refused(
                    "This request came through a proxy, according to " + name + ": expected one from this machine");
        });
        List<String> hosts = headers.getOrEmpty(HttpHeaders.HOST);
        if (hosts.size() != 1 || !OUR_HOSTS.matcher(hosts.get(0)).matches()) {
            throw refused("This request is for the Host " + hosts
                    + ": expected a name of this machine, for example localhost:8080");
        }
    }

    private static void checkIsLoopback(@Nullable String address) {
        if (address == null || !LOOPBACK.matcher(address).matches()) {
            throw refused("This request comes from " + (address == null ? "an unknown address" : address)
                    + ": expected one from this machine, over the loopback interface");
        }
    }

    static void checkIsOurPage(HttpHeaders headers) {
        if (!headers.containsHeader(OUR_PAGE)) {
            throw refused(
                    "This request has no header " + OUR_PAGE + ": expected one, for example \"" + OUR_PAGE + ": 1\"");
        }
        String host = headers.getFirst(HttpHeaders.HOST);
        if (!List.of("http://" + host, "https://" + host).containsAll(headers.getOrEmpty(HttpHeaders.ORIGIN))) {
            throw refused("This request comes from a page of " + headers.getOrEmpty(HttpHeaders.ORIGIN)
                    + ": expected http://" + host);
        }
    }

    private static ResponseStatusException refused(String why) {
        return new ResponseStatusException(HttpStatus.FORBIDDEN, why);
    }
}
