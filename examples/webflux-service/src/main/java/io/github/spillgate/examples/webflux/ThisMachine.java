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

/** Tells who sits at this machine from the rest of the world, and our page from other pages that are open there. */
final class ThisMachine {

    private static final String OUR_PAGE = "X-Playground";

    private static final Pattern LOOPBACK = Pattern.compile("127(\\.[0-9]{1,3}){3}|0:0:0:0:0:0:0:1(%.*)?");
    private static final Pattern OURS =
            Pattern.compile("(localhost|127\\.0\\.0\\.1|\\[::1])(:[0-9]+)?", Pattern.CASE_INSENSITIVE);
    private static final List<String> OF_PROXIES =
            List.of("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via");

    private ThisMachine() {}

    /**
     * Checks who wants to know something. A page of another site cannot read our answer, because we allow no origin to;
     * except if it has made the browser believe that its name is an address of ours (DNS rebinding). Then it stands in
     * {@code Host} with its own name.
     */
    static void checkIsAsking(ServerWebExchange exchange) {
        ServerHttpRequest request = exchange.getRequest();
        // Of the connection and of the request: Spring may have put another address into that, from a header that
        // anybody can write, and have taken the header away (server.forward-headers-strategy).
        checkIsNear(ExchangeRequest.of(exchange).peer());
        check(request.getRemoteAddress(), request.getHeaders());
    }

    /**
     * Checks who wants to have something done as well. For that a page of another site need not read the answer: it has
     * a form sent, or has a script send what a form could. None of the two can have a header of its own, for which the
     * browser would first ask us, by a preflight that nobody answers. {@code Origin} tells the same, where the browser
     * sends it.
     */
    static void checkIsTelling(ServerWebExchange exchange) {
        checkIsAsking(exchange);
        checkIsOurPage(exchange.getRequest().getHeaders());
    }

    static void check(@Nullable InetSocketAddress peer, HttpHeaders headers) {
        InetAddress address = peer == null ? null : peer.getAddress();
        checkIsNear(address == null ? null : address.getHostAddress());
        // Of whoever is behind a proxy one sees the proxy's address.
        OF_PROXIES.stream().filter(headers::containsHeader).findFirst().ifPresent(name -> {
            throw refused(
                    "This request has come through a proxy, as " + name + " says: expected one from this machine");
        });
        List<String> hosts = headers.getOrEmpty(HttpHeaders.HOST);
        if (hosts.size() != 1 || !OURS.matcher(hosts.get(0)).matches()) {
            throw refused("This request is for the Host " + hosts
                    + ": expected a name of this machine, for example localhost:8080");
        }
    }

    private static void checkIsNear(@Nullable String address) {
        if (address == null || !LOOPBACK.matcher(address).matches()) {
            throw refused("This request comes from " + (address == null ? "nobody knows where" : address)
                    + ": expected one from this machine, over the loopback interface");
        }
    }

    private static void checkIsOurPage(HttpHeaders headers) {
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
