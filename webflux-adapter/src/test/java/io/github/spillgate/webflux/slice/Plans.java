package io.github.spillgate.webflux.slice;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import java.util.List;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import reactor.core.publisher.Mono;

/** What a slice does not load, and a rule needs. */
@Configuration
class Plans {

    @Bean
    Rule.LimitSource plans() {
        return (match, key) -> Mono.just(List.of(Limit.perHour(1)));
    }
}
