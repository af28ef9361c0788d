package io.github.spillgate.webflux.slice;

import io.github.spillgate.webflux.RateLimited;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

@RestController
class Reports {

    @RateLimited("2/1h")
    @GetMapping("/report")
    Mono<String> report() {
        return Mono.just("report");
    }

    @GetMapping("/ruled")
    Mono<String> ruled() {
        return Mono.just("ruled");
    }
}
