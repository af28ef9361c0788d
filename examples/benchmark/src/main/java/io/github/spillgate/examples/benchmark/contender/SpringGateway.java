package io.github.spillgate.examples.benchmark.contender;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.springframework.beans.factory.support.StaticListableBeanFactory;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.core.convert.ConversionService;
import org.springframework.core.io.ClassPathResource;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import org.springframework.data.redis.core.script.DefaultRedisScript;
import org.springframework.data.redis.core.script.RedisScript;
import org.springframework.validation.Validator;
import reactor.core.publisher.Mono;

/**
 * The RedisRateLimiter of Spring Cloud Gateway, without a gateway. Its template and connection are created as by the
 * auto-configuration of the gateway and of Spring Boot. Its script is loaded in a faster way.
 */
final class SpringGateway implements Contender {

    private static final String ROUTE = "benchmark";
    private static final String SCRIPT = "META-INF/scripts/request_rate_limiter.lua";

    private final ClientResources resources = DefaultClientResources.create();
    private final LettuceConnectionFactory connections;
    private final RedisRateLimiter limiter;

    SpringGateway(Setting setting) {
        connections = new LettuceConnectionFactory(
                new RedisStandaloneConfiguration(Setting.HOST, setting.port()),
                LettuceClientConfiguration.builder()
                        .clientResources(resources)
                        .clientOptions(ClientOptions.builder()
                                .timeoutOptions(TimeoutOptions.enabled())
                                .build())
                        .build());
        connections.afterPropertiesSet();
        connections.start();
        StaticListableBeanFactory beans = new StaticListableBeanFactory();
        limiter = new RedisRateLimiter(
                new ReactiveStringRedisTemplate(connections),
                script(),
                new ConfigurationService(
                        beans, beans.getBeanProvider(ConversionService.class), beans.getBeanProvider(Validator.class)));
        limiter.getConfig().put(ROUTE, config(setting.onlyRate()));
    }

    /**
     * Loads the script as text. With a resource, as in the auto-configuration, each decision checks its modification
     * time, which searches the whole class path: that would depend on the number of jars before that of the gateway.
     */
    @SuppressWarnings("unchecked") // as in the auto-configuration: a class literal knows no type of elements
    private static RedisScript<List<Long>> script() {
        DefaultRedisScript<List<Long>> script = new DefaultRedisScript<>();
        script.setScriptText(text());
        script.setResultType((Class<List<Long>>) (Class<?>) List.class);
        return script;
    }

    private static String text() {
        try {
            return new ClassPathResource(SCRIPT).getContentAsString(StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Tokens are refilled in whole numbers a second. For a lower rate, a decision costs several tokens, as the
     * documentation advises.
     */
    private static RedisRateLimiter.Config config(Rate rate) {
        long seconds = rate.window().toSeconds();
        if (rate.permits() % seconds == 0) {
            int each = Math.toIntExact(rate.permits() / seconds);
            return new RedisRateLimiter.Config().setReplenishRate(each).setBurstCapacity(rate.permits());
        }
        if (seconds % rate.permits() != 0) {
            throw new IllegalArgumentException("rate " + rate
                    + " is neither whole permits a second nor whole seconds a permit, for example 10 per 1h");
        }
        return new RedisRateLimiter.Config()
                .setReplenishRate(1)
                .setBurstCapacity(seconds)
                .setRequestedTokens(Math.toIntExact(seconds / rate.permits()));
    }

    @Override
    public void decide(String key, Answer answer) {
        AnswerSubscriber.of(ask(key), answer, SpringGateway::deliver);
    }

    Mono<RateLimiter.Response> ask(String key) {
        return limiter.isAllowed(ROUTE, key);
    }

    /** If Redis fails, it fails open, and reports -1 remaining tokens. */
    private static void deliver(RateLimiter.Response response, Answer receiver) {
        if ("-1".equals(response.getHeaders().get(RedisRateLimiter.REMAINING_HEADER))) {
            receiver.failed(new IllegalStateException("Redis has failed, and the gateway allows"));
        } else {
            receiver.decided(response.isAllowed());
        }
    }

    @Override
    public void close() {
        connections.destroy();
        resources.shutdown().syncUninterruptibly();
    }
}
