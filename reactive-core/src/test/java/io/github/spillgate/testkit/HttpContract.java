package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.testkit.HttpAdapter.Server;
import io.github.spillgate.testkit.HttpAdapter.Setup;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;

/**
 * The behaviour of the limiter that an HTTP client sees, the same in every framework: a fixture with a real server, a
 * real client and a real Redis or PostgreSQL. Each subclass here covers one aspect, and each adapter has a test of each
 * aspect.
 */
public abstract class HttpContract {

    static final Duration PATIENCE = Duration.ofSeconds(60);

    /** Only one test is about a Redis that does not answer; a slow machine must not look like one. */
    private static final Duration LONG_DEADLINE = Duration.ofSeconds(20);

    final AtomicInteger handled = new AtomicInteger();
    final RunningWork work = new RunningWork();
    final RuleLog events = new RuleLog();
    ClientForTests client;

    /** Whether a test lets decisions miss their deadline. In all others Redis decides. */
    boolean mayFallBack;

    private final HttpAdapter adapter;
    private final LimiterForTests limiter;
    private final Source otherStore;
    private @Nullable Server server;

    HttpContract(HttpAdapter adapter) {
        this(adapter, LimiterForTests.on(RedisForTests.first(), LONG_DEADLINE), Source.POSTGRES);
    }

    HttpContract(HttpAdapter adapter, PostgresForTests postgres) {
        this(adapter, LimiterForTests.on(postgres, LONG_DEADLINE), Source.REDIS);
    }

    private HttpContract(HttpAdapter adapter, LimiterForTests limiter, Source otherStore) {
        this.adapter = adapter;
        this.limiter = limiter;
        this.otherStore = otherStore;
    }

    @AfterEach
    void close() {
        if (server != null) {
            server.close();
        }
        // A server may still handle requests of clients that have disconnected. If a decision is in flight when the
        // store is closed, the fallback makes it.
        Set<Source> beforeClosing = Set.copyOf(events.sources);
        limiter.close();
        if (!mayFallBack) {
            assertThat(beforeClosing).doesNotContain(Source.LOCAL, Source.FALLBACK, otherStore);
        }
    }

    /** Returns a pattern such as {@code /items/{id}} in the adapter's own syntax. */
    final String pattern(String pattern) {
        return adapter.pattern(pattern);
    }

    /** Skips a test on a server that does not upgrade to WebSocket. */
    final void assumeWebSockets() {
        assumeTrue(adapter.hasWebSockets(), "the server of this test has no WebSockets");
    }

    /** Returns whether a handler that is cancelled has ended at once. */
    final boolean cancelsAtOnce() {
        return adapter.cancelsOnOneThread();
    }

    /** Starts the service with these rules, and {@link #client}. */
    final Rules serve(Rule.Builder... rules) {
        return serve(RateLimitHeaders.all(), rules);
    }

    final Rules serve(RateLimitHeaders headers, Rule.Builder... rules) {
        if (!mayFallBack) {
            limiter.awaitReady();
        }
        Rules built = rules(limiter, rules);
        server = start(built, headers);
        client = ClientForTests.of(server.port());
        return built;
    }

    /** Starts the service with another limiter, which the caller closes, and a listener. */
    final Rules serve(RateLimiter other, RuleListener listener, Rule.Builder... rules) {
        Rules built = Rules.of(
                other,
                adapter.syntax(),
                Stream.of(rules).map(Rule.Builder::build).toList(),
                RuleInstrumentation.none().listener(events).listener(listener));
        server = start(built, RateLimitHeaders.all());
        client = ClientForTests.of(server.port());
        return built;
    }

    /** Starts another service, which the caller closes. */
    final Server start(Rules rules, RateLimitHeaders headers) {
        return adapter.start(new Setup(rules, headers, handled::incrementAndGet, work));
    }

    final Rules rules(LimiterForTests some, Rule.Builder... rules) {
        return Rules.of(
                some.limiter(),
                adapter.syntax(),
                Stream.of(rules).map(Rule.Builder::build).toList(),
                RuleInstrumentation.none().listener(events));
    }

    /** Returns the usage of a rule by the client. */
    static Usage usage(Rules rules, String rule) {
        return rules.peek(rule, "127.0.0.1").block(PATIENCE).limits().get(0);
    }

    static void awaitRemaining(Rules rules, String rule, long remaining) {
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(usage(rules, rule).remaining()).isEqualTo(remaining));
    }

    static void awaitUsed(Rules rules, String rule, long used) {
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(usage(rules, rule).used()).isEqualTo(used));
    }

    /** Returns a client of the running service that uses HTTP/2. */
    final ClientForTests http2() {
        return ClientForTests.ofHttp2(server.port());
    }

    /** A listener that records a word or two for each event, and which stores have decided. */
    static final class RuleLog implements RuleListener {

        private final Queue<String> all = new ConcurrentLinkedQueue<>();
        private final Queue<Throwable> why = new ConcurrentLinkedQueue<>();
        private final Set<Source> sources = ConcurrentHashMap.newKeySet();

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            all.add(match.rule().name() + " " + outcome);
            sources.add(decision.source());
        }

        @Override
        public void refused(RuleMatch match) {
            all.add(match.rule().name() + " refused");
        }

        @Override
        public void undecided(RuleMatch match, Throwable reason) {
            all.add(match.rule().name() + " undecided");
            why.add(reason);
        }

        List<String> all() {
            return List.copyOf(all);
        }

        List<String> of(String rule) {
            return all.stream().filter(one -> one.startsWith(rule + " ")).toList();
        }

        List<Throwable> why() {
            return List.copyOf(why);
        }
    }
}
