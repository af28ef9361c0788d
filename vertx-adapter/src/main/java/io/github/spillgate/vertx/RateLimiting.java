package io.github.spillgate.vertx;

import static io.github.spillgate.http.settings.WrongSettingException.checked;

import io.github.spillgate.Decision;
import io.github.spillgate.DecisionListener;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.failover.LocalFallback;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.RuleTracer;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.http.settings.PublishedLimits;
import io.github.spillgate.http.settings.RuleReader;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.syntax.Spelling;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.vertx.RateLimitOptions.Denials;
import io.github.spillgate.vertx.RateLimitOptions.StoreType;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.vertx.core.Future;
import io.vertx.core.Handler;
import io.vertx.core.Vertx;
import io.vertx.ext.web.RoutingContext;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * A limiter and its rules, configured by {@link RateLimitOptions}. Create one per application and share it between all
 * verticles.
 *
 * <pre>{@code
 * RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(config)).start();
 *
 * router.route().handler(limiting.handler(Phase.BEFORE_AUTHENTICATION));
 * router.route("/account/*").handler(authentication).handler(limiting.handler(Phase.AFTER_AUTHENTICATION));
 * }</pre>
 */
public final class RateLimiting {

    private static final Logger LOG = Loggers.getLogger(RateLimiting.class);

    private final Vertx vertx;
    private final RateLimiter limiter;

    /** Those of {@code limiters}, which share the store of the limiter. */
    private final NamedLimiters named;

    private final Rules rules;

    /** Reads rules with the functions and the client addresses of the start, if no other setting has changed. */
    private final Function<RateLimitOptions, List<Rule>> reader;

    private final RateLimitHeaders headers;
    private final DenialWriter denials;
    private final boolean preflights;
    private final Duration readyTimeout;

    /** Closes the store and then its client, if this limiter has created them. */
    private final Mono<Void> disconnect;

    private RateLimiting(
            Vertx vertx,
            RateLimiter limiter,
            NamedLimiters named,
            Rules rules,
            Function<RateLimitOptions, List<Rule>> reader,
            RateLimitOptions options,
            Mono<Void> disconnect) {
        this.vertx = vertx;
        this.limiter = limiter;
        this.named = named;
        this.rules = rules;
        this.reader = reader;
        this.headers = RateLimitHeaders.all()
                .rateLimit(options.isRateLimitFields())
                .xRateLimit(options.isXRateLimitFields())
                .retryAfter(options.isRetryAfterField());
        this.denials = options.getDenials() == Denials.FAIL ? DenialWriter.failing() : DenialWriter.ofProblem();
        this.preflights = options.isPreflights();
        this.readyTimeout = options.getReadyTimeout();
        this.disconnect = disconnect;
    }

    /**
     * Returns a builder of a limiter with these options.
     *
     * @param vertx the Vert.x instance; results are delivered on its contexts
     * @param options the settings
     * @return the builder, which takes the functions that the settings refer to, and starts the limiter
     */
    public static Builder of(Vertx vertx, RateLimitOptions options) {
        Checks.present(vertx, "vertx", "Vertx.vertx()");
        Checks.some(options, "options", "new RateLimitOptions(config)");
        return new Builder(vertx, new RateLimitOptions(options));
    }

    /**
     * Returns a handler that applies the rules of one phase.
     *
     * @param phase the phase
     * @return the handler, for any number of routes and event loops
     */
    public RateLimitHandler handler(Phase phase) {
        return RateLimitHandler.create(rules, phase)
                .headers(headers)
                .denials(denials)
                .preflights(preflights);
    }

    /**
     * Returns a handler that applies the rules of both phases together. Add it after authentication.
     *
     * @return the handler, for any number of routes and event loops
     */
    public RateLimitHandler handler() {
        return RateLimitHandler.create(rules).headers(headers).denials(denials).preflights(preflights);
    }

    /**
     * Returns the rules, which can be replaced while the service runs.
     *
     * @return the rules
     */
    public Rules rules() {
        return rules;
    }

    /**
     * Replaces all rules by those of other options, or none if one of them is invalid. Counts, held permits, decisions
     * in flight and waiters are kept.
     *
     * @param options the new rules, and no other setting with another value than at the start: only a restart can
     *     change those
     * @throws WrongSettingException if a setting is invalid or needs a restart, or there are no rules; the message
     *     names it and what was expected; an empty list of rules is valid, and limits nothing
     */
    public void replaceRules(RateLimitOptions options) {
        List<Rule> read = reader.apply(Checks.some(options, "options", "new RateLimitOptions(config)"));
        checked("rules", read.stream().map(Rule::name).toList(), names -> {
            rules.replace(read);
            return names;
        });
    }

    /**
     * Returns the limiter.
     *
     * @return the limiter, which {@link #close()} closes
     */
    public RateLimiter limiter() {
        return limiter;
    }

    /**
     * Returns a limiter of the setting {@code limiters}, for example for the calls of a partner. It has limits of its
     * own, and the store of {@link #limiter()}. Its name is that of the limiter, a dot, and its own.
     *
     * @param name its name in the settings, such as {@code partner}
     * @return the limiter, which {@link #close()} closes
     * @throws IllegalArgumentException if the settings have no limiter of this name; the message has those that exist
     */
    public RateLimiter limiter(String name) {
        return named.get(name);
    }

    /**
     * Returns a limiter of the setting {@code limiters} as futures.
     *
     * @param name its name in the settings, such as {@code partner}
     * @return the limiter as futures
     * @throws IllegalArgumentException as {@link #limiter(String)} does
     */
    public FutureRateLimiter futures(String name) {
        return FutureRateLimiter.of(vertx, limiter(name));
    }

    /**
     * Returns the limiter as futures, for everything except HTTP. The settings give it rules but no limits of its own,
     * so each charge must name its limits, as in {@code Charge.of("user:42", Limit.perMinute(120))}.
     *
     * @return the limiter as futures
     */
    public FutureRateLimiter futures() {
        return FutureRateLimiter.of(vertx, limiter);
    }

    /**
     * Returns how much of the limits of each rule the client of a request has used, for example to display it; charges
     * nothing. {@link Rules#peek(io.github.spillgate.http.Request)} says which rules are included.
     *
     * @param ctx the request
     * @return the decision that one permit of each rule would get, on the context of the caller; null if no rule is
     *     included
     */
    public Future<@Nullable Decision> peek(RoutingContext ctx) {
        return ContextDelivery.future(vertx, rules.peek(new RoutingRequest(ctx)));
    }

    /**
     * Returns a handler with which operators read, publish and withdraw the limits of rules and limiters, in all
     * instances. It checks no one's rights: add it behind a {@code BodyHandler}, authentication and authorization.
     *
     * <pre>{@code
     * router.route("/admin/limits")
     *         .handler(BodyHandler.create(false).setBodyLimit(8_192))
     *         .handler(authentication)
     *         .handler(authorization)
     *         .handler(limiting.publishedLimits());
     * }</pre>
     *
     * <p>{@code GET} lists what is published; {@code POST ?rule=login} publishes the fields of a JSON object, such as
     * {@code limits}; {@code DELETE ?rule=login&version=1} withdraws. The name of a limiter follows {@code limiter:}.
     * {@link io.github.spillgate.http.settings.PublishedLimits PublishedLimits} has the fields and the replies.
     *
     * @return the handler, for any number of event loops
     */
    public Handler<RoutingContext> publishedLimits() {
        return new PublishedLimitsHandler(vertx, PublishedLimits.of(rules, named.all()));
    }

    /**
     * Waits until the limiter has connected to Redis. Compose it with the deployment of the first verticle, so that the
     * first requests are decided in Redis. Await the result in {@code main}: the threads that connect do not keep the
     * JVM running.
     *
     * <pre>{@code
     * limiting.ready().compose(ready -> vertx.deployVerticle(...)).await();
     * }</pre>
     *
     * @return completes when the next decision does not wait for a connection; also after {@code ready-timeout}, or if
     *     Redis cannot be reached, because the fallback decides then; fails if the limiter is closed
     */
    public Future<Void> ready() {
        return ContextDelivery.future(
                vertx,
                limiter.ready().timeout(readyTimeout).onErrorComplete(why -> !(why instanceof IllegalStateException)));
    }

    /**
     * Closes all limiters, without blocking. Grants of the fallback are reconciled with Redis, if Redis answers within
     * a second.
     *
     * @return completes when the limiters and their connection are closed
     */
    public Future<Void> close() {
        Mono<Void> closed = Mono.when(
                named.all().values().stream().map(RateLimiter::closeLater).toList());
        return ContextDelivery.future(vertx, closed.then(limiter.closeLater()).then(disconnect));
    }

    /**
     * Builder of a {@link RateLimiting}: takes the functions that the settings refer to, and starts the limiter. Not
     * thread-safe.
     */
    public static final class Builder {

        private final Vertx vertx;
        private final RateLimitOptions options;
        private final Map<String, Object> named = new HashMap<>();
        private final List<DecisionListener> decisionListeners = new ArrayList<>();
        private RuleInstrumentation instrumentation = RuleInstrumentation.none();
        private @Nullable LimitStore store;

        private Builder(Vertx vertx, RateLimitOptions options) {
            this.vertx = vertx;
            this.options = options;
        }

        /**
         * Registers a key source, for a key such as {@code bean:tenant}.
         *
         * @param name the name
         * @param source the source, for example {@link FutureSources#key}
         * @return this builder
         */
        public Builder key(String name, KeySource source) {
            return register(name, source);
        }

        /**
         * Registers a limit source, for {@code limits-from}.
         *
         * @param name the name
         * @param source the source, for example {@link FutureSources#limits}
         * @return this builder
         */
        public Builder limits(String name, Rule.LimitSource source) {
            return register(name, source);
        }

        /**
         * Registers a cost source, for {@code cost-from}.
         *
         * @param name the name
         * @param source the source, for example {@link FutureSources#cost}
         * @return this builder
         */
        public Builder cost(String name, Rule.CostSource source) {
            return register(name, source);
        }

        /**
         * Registers a condition that exempts requests, for {@code unless}.
         *
         * @param name the name
         * @param exempted the condition, true if the rule does not apply; must not block
         * @return this builder
         */
        public Builder unless(String name, Predicate<? super RuleMatch> exempted) {
            return register(name, exempted);
        }

        private Builder register(String name, Object thing) {
            named.put(
                    Checks.present(name, "name", "\"tenant\""),
                    Objects.requireNonNull(thing, "what is called " + name + " is null: expected a function"));
            return this;
        }

        /**
         * Adds a listener of all decisions for rules, for example {@code RuleMetrics}.
         *
         * @param listener the listener
         * @return this builder
         */
        public Builder listener(RuleListener listener) {
            instrumentation = instrumentation.listener(listener);
            return this;
        }

        /**
         * Adds a listener of all decisions of all limiters, for example {@code DecisionMetrics}: those for rules, and
         * those that your code requests.
         *
         * @param listener the listener
         * @return this builder
         */
        public Builder listener(DecisionListener listener) {
            decisionListeners.add(Checks.present(listener, "listener", "DecisionMetrics.of(registry)"));
            return this;
        }

        /**
         * Adds a tracer of all decisions, for example {@code RuleObservations}.
         *
         * @param tracer the tracer
         * @return this builder
         */
        public Builder tracer(RuleTracer tracer) {
            instrumentation = instrumentation.tracer(tracer);
            return this;
        }

        /**
         * Sets the store, which replaces the one in the settings. {@link RateLimiting#close()} does not close it.
         *
         * @param store a store, for example {@code RedisStore.create(redisClient)}
         * @return this builder
         */
        public Builder store(LimitStore store) {
            this.store = store;
            return this;
        }

        /**
         * Returns the limiter, which starts to connect, and its rules. With {@code "enabled": false} nothing connects,
         * and handlers and limiter allow everything. This method reads scripts from the class path: call it when the
         * application starts, not on an event loop.
         *
         * @return the limiter and its rules
         * @throws WrongSettingException if a setting is invalid; the message names it and what was expected
         */
        public RateLimiting start() {
            RateLimiterBuilder limiter = checked("name", requireName(), RateLimiter::builder);
            if (!options.isEnabled()) {
                LOG.info("No request is limited (enabled: false)");
                RateLimiter off = limiter.store(Fallback.allow()).build();
                Rules none = Rules.off(off, RoutePaths.ofVertx());
                return new RateLimiting(vertx, off, named(off), none, this::readNewRules, options, Mono.empty());
            }
            List<Rule> read = readRules(options);
            if (store != null || options.getStore() == StoreType.LOCAL) {
                return build(limiter, store != null ? store : local(), read, Mono.empty());
            }
            List<RedisURI> uris = redisUris();
            String postgresUri = options.getPostgresUri();
            if (postgresUri != null) {
                PostgresStore postgres = postgresStore(postgresUri, !uris.isEmpty());
                return build(limiter, postgres, read, postgres.closeLater());
            } else if (uris.isEmpty()) {
                return build(limiter, local(), read, Mono.empty());
            }
            AbstractRedisClient client = redisClient(uris);
            Mono<Void> disconnect = Mono.fromFuture(() -> client.shutdownAsync(0, 2, TimeUnit.SECONDS));
            try {
                RedisStore redis = redisStore(client, uris);
                disconnect = redis.closeLater().then(disconnect);
                return build(limiter, redis, read, disconnect);
            } catch (RuntimeException e) {
                disconnect.subscribe();
                throw e;
            }
        }

        private RateLimiting build(
                RateLimiterBuilder limiter, LimitStore primary, List<Rule> read, Mono<Void> disconnect) {
            limiter.store(primary);
            checked("debt", options.getDebt(), limiter::debt);
            checked("longest-hold", options.getLongestHold(), limiter::longestHold);
            decisionListeners.forEach(limiter::listener);
            // Also for a local store, so that a wrong setting is reported before there is a Redis.
            if (primary.deadline().orElse(Duration.ZERO).isZero()) {
                limiter.fallback(fallback());
                checked("deadline", options.getDeadline(), limiter::deadline);
                checked("cache-denials", options.getCacheDenials(), limiter::cacheDenials);
            }
            RateLimiter built = limiter.build();
            try {
                Rules rules = checked(
                        "rules",
                        read.stream().map(Rule::name).toList(),
                        names -> Rules.of(built, RoutePaths.ofVertx(), read, instrumentation()));
                NamedLimiters others = named(built);
                Set<String> names = others.all().keySet();
                LOG.info("Rules {} use {}{}", rules, built, names.isEmpty() ? "" : "; other limiters: " + names);
                return new RateLimiting(vertx, built, others, rules, this::readNewRules, options, disconnect);
            } catch (RuntimeException e) {
                built.close();
                throw e;
            }
        }

        private NamedLimiters named(RateLimiter main) {
            return NamedLimiters.of("limiters", options.getLimiters(), main, limiter -> {
                if (options.isEnabled()) {
                    limiter.debt(options.getDebt()).longestHold(options.getLongestHold());
                    decisionListeners.forEach(limiter::listener);
                }
            });
        }

        private String requireName() {
            String name = options.getName();
            if (name == null) {
                throw new WrongSettingException(
                        "name",
                        null,
                        "the limiter has no name: expected one, the same in all instances of the service, for example"
                                + " orders",
                        null);
            }
            return name;
        }

        private List<Rule> readRules(RateLimitOptions from) {
            return RuleReader.of(keys(), RoutePaths.ofVertx(), new NamedBeans(named))
                    .read(
                            "rules",
                            from.getRules().stream().map(RuleOptions::settings).toList());
        }

        private List<Rule> readNewRules(RateLimitOptions from) {
            from.checkReplace(options);
            return readRules(from);
        }

        private RuleInstrumentation instrumentation() {
            return instrumentation.warnings(keys().client(), "client-address.header and trusted-proxies");
        }

        private KeySyntax keys() {
            KeySyntax syntax = KeySyntax.of(options.clientAddress().read("client-address"))
                    .beans(name -> Optional.of(new NamedBeans(named).get(name, KeySource.class)));
            String secret = options.getSecret();
            return secret == null
                    ? syntax
                    : checked("secret", "…", any -> syntax.secret(secret.getBytes(StandardCharsets.UTF_8)));
        }

        /** Returns the addresses of Redis; empty if it has none. */
        private List<RedisURI> redisUris() {
            String text = options.getRedisUri();
            if (text == null) {
                return List.of();
            }
            return checked(
                    "redis.uri",
                    "…",
                    any -> options.isRedisCluster() ? RedisStore.clusterUris(text) : List.of(RedisStore.uri(text)));
        }

        private AbstractRedisClient redisClient(List<RedisURI> uris) {
            return options.isRedisCluster() ? RedisClusterClient.create(uris) : RedisClient.create(uris.get(0));
        }

        private RedisStore redisStore(AbstractRedisClient client, List<RedisURI> uris) {
            RedisStore.Builder redis = RedisStore.builder(client).nodes(uris);
            return checked("redis.namespace", options.getRedisNamespace(), redis::namespace)
                    .build();
        }

        private PostgresStore postgresStore(String uri, boolean hasRedis) {
            if (hasRedis) {
                throw new WrongSettingException(
                        "postgres.uri", "…", "there is also redis.uri: expected one of them", null);
            }
            PostgresStore.Builder postgres;
            try {
                postgres = checked("postgres.uri", "…", any -> PostgresStore.builder(uri));
            } catch (LinkageError e) {
                throw new WrongSettingException(
                        "postgres.uri",
                        "…",
                        "the class " + e.getMessage() + " is not on the class path: expected the dependencies"
                                + " org.postgresql:r2dbc-postgresql and io.projectreactor.netty:reactor-netty-core",
                        e);
            }
            checked("postgres.namespace", options.getPostgresNamespace(), postgres::namespace);
            checked("postgres.table", options.getPostgresTable(), postgres::table);
            checked("postgres.connections", options.getPostgresConnections(), postgres::connections);
            return postgres.createTable(options.isPostgresCreateTable())
                    .logged(options.isPostgresLogged())
                    .build();
        }

        private LimitStore local() {
            if (options.getStore() == StoreType.AUTO) {
                LOG.warn("No Redis is configured; each instance of this service counts on its own: expected redis.uri"
                        + " or postgres.uri, or store: local if that is intended");
            }
            LocalStore local = checked("local.counts", options.getLocalCounts(), LocalStore::bounded);
            Double share = options.getLocalShare();
            return share == null ? local : checked("local.share", share, local::share);
        }

        private LimitStore localFallback() {
            LocalFallback local = checked("local.counts", options.getLocalCounts(), Fallback::local);
            Double share = options.getLocalShare();
            return share == null ? local : checked("local.share", share, local::share);
        }

        private LimitStore fallback() {
            return switch (options.getFallback()) {
                case LOCAL -> localFallback();
                case ALLOW -> Fallback.allow();
                case DENY -> Fallback.deny();
                case ERROR -> Fallback.error();
            };
        }
    }

    /** The functions that settings refer to by name. */
    private record NamedBeans(Map<String, Object> named) implements RuleReader.BeanLookup {

        @Override
        public <T> T get(String name, Class<T> type) {
            Object found = named.get(name);
            if (!type.isInstance(found)) {
                List<String> names = named.entrySet().stream()
                        .filter(one -> type.isInstance(one.getValue()))
                        .map(Map.Entry::getKey)
                        .sorted()
                        .toList();
                throw new IllegalArgumentException("no " + type.getSimpleName() + " has this name: "
                        + (names.isEmpty() ? "expected " : Spelling.expected(name, names) + ", or ")
                        + "RateLimiting.of(…)." + method(type) + "(\"" + name + "\", …) before start()");
            }
            return type.cast(found);
        }

        private static String method(Class<?> type) {
            return type == KeySource.class
                    ? "key"
                    : type == Rule.LimitSource.class ? "limits" : type == Rule.CostSource.class ? "cost" : "unless";
        }
    }
}
