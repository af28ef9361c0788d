package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.settings.ClientAddressSettings;
import io.github.spillgate.http.settings.RuleSettings;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.WithoutDeadline;
import io.github.spillgate.vertx.RateLimitOptions.Denials;
import io.github.spillgate.vertx.RateLimitOptions.FallbackType;
import io.github.spillgate.vertx.RateLimitOptions.StoreType;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.assertj.core.util.Throwables;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.platform.commons.support.ReflectionSupport;
import reactor.core.publisher.Mono;

/** Settings by setters, and as JSON with the names that they have in Spring Boot. */
class RateLimitOptionsTest {

    private final Vertx vertx = Vertx.vertx();

    @AfterEach
    void close() throws Exception {
        vertx.close().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
    }

    private static final String ALL = """
            {
              "name": "orders",
              "store": "local",
              "redis": {"uri": "redis://localhost:6379", "cluster": true, "namespace": "shop"},
              "postgres": {
                "uri": "r2dbc:postgresql://localhost/orders", "namespace": "shop", "table": "limits.counts",
                "create-table": false, "logged": true, "connections": 2
              },
              "deadline": "80ms",
              "ready-timeout": "3s",
              "cache-denials": "500ms",
              "debt": 2.5,
              "longest-hold": "90m",
              "fallback": "deny",
              "local": {"counts": 5000, "share": 0.25},
              "client-address":
                {"header": "x-forwarded-for", "trusted-proxies": ["10.0.0.0/8"], "ipv6-prefix": 56, "max-hops": 3},
              "secret": "0123456789abcdef",
              "headers": {"rate-limit": false, "x-rate-limit": false, "retry-after": false},
              "preflights": false,
              "denials": "fail",
              "enabled": false,
              "limiters": {"partner": {"limits": "10/s, 5 concurrent"}},
              "rules": [
                {
                  "name": "login", "paths": ["/login", "/token"], "exclude-paths": "/login/health",
                  "methods": "POST, PUT", "key": "header:X-Api-Key",
                  "limits": "5/15m, 100/24h counter", "limits-from": "plans", "cost": 2, "cost-from": "costs",
                  "phase": "after-authentication", "when-missing": "deny", "when-undecided": "deny",
                  "when-ambiguous": "missing",
                  "when-lookup-fails": "undecided",
                  "refund-when": "2xx", "unless": "internal", "shadow": true, "timeout": "1s"
                }
              ]
            }
            """;

    private static RateLimitOptions all() {
        return new RateLimitOptions()
                .setName("orders")
                .setStore(StoreType.LOCAL)
                .setRedisUri("redis://localhost:6379")
                .setRedisCluster(true)
                .setRedisNamespace("shop")
                .setPostgresUri("r2dbc:postgresql://localhost/orders")
                .setPostgresNamespace("shop")
                .setPostgresTable("limits.counts")
                .setPostgresCreateTable(false)
                .setPostgresLogged(true)
                .setPostgresConnections(2)
                .setDeadline(Duration.ofMillis(80))
                .setReadyTimeout(Duration.ofSeconds(3))
                .setCacheDenials(Duration.ofMillis(500))
                .setDebt(2.5)
                .setLongestHold(Duration.ofMinutes(90))
                .setFallback(FallbackType.DENY)
                .setLocalCounts(5_000)
                .setLocalShare(0.25)
                .setClientAddressHeader(ClientAddressSettings.Header.X_FORWARDED_FOR)
                .setTrustedProxies("10.0.0.0/8")
                .setIpv6Prefix(56)
                .setMaxHops(3)
                .setSecret("0123456789abcdef")
                .setRateLimitFields(false)
                .setXRateLimitFields(false)
                .setRetryAfterField(false)
                .setPreflights(false)
                .setDenials(Denials.FAIL)
                .setEnabled(false)
                .addLimiter("partner", Limit.perSecond(10), Limit.concurrent(5))
                .addRule(new RuleOptions()
                        .setName("login")
                        .setPaths("/login", "/token")
                        .setExcludePaths("/login/health")
                        .setMethods("POST", "PUT")
                        .setKey("header:X-Api-Key")
                        .setLimits(Limit.of(5, Duration.ofMinutes(15)), Limit.counter(100, Duration.ofHours(24)))
                        .setLimitsFrom("plans")
                        .setCost(2)
                        .setCostFrom("costs")
                        .setPhase(Phase.AFTER_AUTHENTICATION)
                        .setWhenMissing(Rule.WhenMissing.DENY)
                        .setWhenUndecided(Rule.WhenUndecided.DENY)
                        .setWhenAmbiguous(Rule.WhenAmbiguous.MISSING)
                        .setWhenLookupFails(Rule.WhenLookupFails.UNDECIDED)
                        .setRefundWhen("2xx")
                        .setUnless("internal")
                        .setShadow(true)
                        .setTimeout(Duration.ofSeconds(1)));
    }

    @Test
    void settersAndJsonMeanTheSame() {
        RateLimitOptions json = new RateLimitOptions(new JsonObject(ALL));
        assertThat(json).isEqualTo(all()).hasSameHashCodeAs(all());
        assertThat(new RateLimitOptions(new JsonObject(all().toJson().encode())))
                .isEqualTo(all());
        assertThat(values(json)).isEqualTo(values(all()));
        assertThat(values(json.getRules().get(0)))
                .isEqualTo(values(all().getRules().get(0)));
        assertThat(new RateLimitOptions().setLimiters(json.getLimiters()).getLimiters())
                .isEqualTo(json.getLimiters());
        // Each was set to something else than its default.
        assertThat(values(json)).doesNotContainAnyElementsOf(values(new RateLimitOptions()));
        assertThat(values(json.getRules().get(0))).doesNotContainAnyElementsOf(values(new RuleOptions()));
    }

    /** The error for an unknown setting lists all settings in JSON; {@link #all()} calls all setters. */
    @Test
    void eachSettingInJsonHasASetterAndAGetter() {
        JsonObject all = all().toJson();
        assertThat(all.fieldNames()).containsExactlyInAnyOrderElementsOf(known(new JsonObject()));
        for (String section : all.fieldNames()) {
            if (all.getValue(section) instanceof JsonObject object && !section.equals("limiters")) {
                assertThat(object.fieldNames())
                        .containsExactlyInAnyOrderElementsOf(known(new JsonObject().put(section, new JsonObject())));
            }
        }
        JsonObject rules = new JsonObject().put("rules", new JsonArray().add(new JsonObject()));
        assertThat(all.getJsonArray("rules").getJsonObject(0).fieldNames())
                .containsExactlyInAnyOrderElementsOf(known(rules));
        assertThat(names(RateLimitOptions.class, "set"))
                .isEqualTo(names(RateLimitOptions.class, "get|is"))
                .isNotEmpty();
        assertThat(names(RuleOptions.class, "set"))
                .isEqualTo(names(RuleOptions.class, "get|is"))
                .isNotEmpty();
    }

    /** Returns the names that the innermost object may have. */
    private static List<String> known(JsonObject json) {
        JsonObject innermost = json;
        for (Object value : json.getMap().values()) {
            innermost = value instanceof JsonArray array ? array.getJsonObject(0) : (JsonObject) value;
        }
        innermost.put("?", 1);
        WrongSettingException unknown =
                catchThrowableOfType(WrongSettingException.class, () -> new RateLimitOptions(json));
        return List.of(unknown.why().replaceFirst(".*xpected one of ", "").split(", ", -1));
    }

    /** Returns what follows in the names of public methods that begin like this. */
    private static List<String> names(Class<?> options, String begin) {
        return Stream.of(options.getDeclaredMethods())
                .filter(method -> Modifier.isPublic(method.getModifiers()))
                .map(Method::getName)
                .filter(name -> name.matches("(" + begin + ")[A-Z].*"))
                .map(name -> name.replaceFirst(begin, ""))
                .sorted()
                .toList();
    }

    @Test
    void nullRestoresEachDefault() throws Exception {
        RateLimitOptions options = all();
        RuleOptions rule = options.getRules().get(0);
        for (Object each : List.of(options, rule)) {
            for (Method method : each.getClass().getDeclaredMethods()) {
                boolean takesNull = method.getParameterCount() == 1 && !method.getParameterTypes()[0].isPrimitive();
                if (takesNull && method.getName().startsWith("set") && Modifier.isPublic(method.getModifiers())) {
                    assertThat(method.invoke(each, (Object) null)).isSameAs(each);
                }
            }
        }
        assertThat(rule.setCost(1).setShadow(false).toJson())
                .isEqualTo(new JsonObject("{\"cost\": 1, \"shadow\": false}"));
        assertThat(options.toJson().fieldNames())
                .containsExactlyInAnyOrder(
                        "redis", "postgres", "debt", "local", "client-address", "headers", "preflights", "enabled");
    }

    @Test
    void settersRejectWhatJsonRejects() {
        assertThatThrownBy(() -> new RuleOptions().setPaths("/a", null))
                .isInstanceOf(WrongSettingException.class)
                .hasMessage("paths: expected texts, for example [\"/users/:id\"]");
        assertThatThrownBy(() -> new RuleOptions().setLimits(Limit.perMinute(1), null))
                .hasMessage("limits: expected texts, for example [\"120/1m\"]");
        assertThatThrownBy(
                        () -> new RateLimitOptions().addRule(new RuleOptions()).addRule(null))
                .hasMessage(
                        "rules[1]: expected an object, for example {\"name\": \"address\", \"limits\": \"120/1m\"}");
        assertThatThrownBy(() -> new RateLimitOptions().addLimiter("partner", Limit.perMinute(1), null))
                .hasMessage("limiters.partner.limits: expected texts, for example [\"10/s\"]");
        assertThatThrownBy(() -> new RateLimitOptions().setTrustedProxies("10.0.0.0/8", null))
                .hasMessage("client-address.trusted-proxies: expected texts, for example [\"10.0.0.0/8\"]");
    }

    /** Returns what the getters of options return, with their names. */
    private static List<String> values(Object options) {
        return Stream.of(options.getClass().getDeclaredMethods())
                .filter(method -> Modifier.isPublic(method.getModifiers())
                        && method.getParameterCount() == 0
                        && !List.of("getRules", "toJson", "toString", "hashCode")
                                .contains(method.getName()))
                .map(method -> method.getName() + " " + ReflectionSupport.invokeMethod(method, options))
                .sorted()
                .toList();
    }

    @Test
    void optionsAreCopiedAndWrittenAsJson() {
        RateLimitOptions options = all();
        assertThat(new RateLimitOptions(options)).isEqualTo(options).hasSameHashCodeAs(options);
        assertThat(new RateLimitOptions(options.toJson())).isEqualTo(options);
        assertThat(new RateLimitOptions(options).setEnabled(true)).isNotEqualTo(options);
        RuleOptions rule = options.getRules().get(0);
        assertThat(new RuleOptions(rule)).isEqualTo(rule).hasSameHashCodeAs(rule);
        assertThat(rule.setShadow(false)).isNotEqualTo(options.getRules().get(0));
    }

    @Test
    void aSetterReplacesEachSpellingAndNullRestoresTheDefault() {
        JsonObject json = new JsonObject().put("cacheDenials", "2s").put("local", new JsonObject().put("counts", 7));
        RateLimitOptions options = new RateLimitOptions(json).setCacheDenials(Duration.ZERO);
        assertThat(options.toJson().getMap()).containsOnlyKeys("cache-denials", "local");
        assertThat(options.getCacheDenials()).isZero();
        assertThat(options.setCacheDenials(null).getCacheDenials()).isEqualTo(Duration.ofSeconds(1));
        assertThat(options.setLocalShare(0.5).toJson().getJsonObject("local"))
                .isEqualTo(new JsonObject().put("counts", 7).put("share", 0.5));
        assertThat(json.fieldNames()).containsExactly("cacheDenials", "local");
    }

    @Test
    void valuesOfSettersAreCheckedAtTheStart() {
        RateLimitOptions late = new RateLimitOptions().setName("x").setDeadline(Duration.ZERO);
        assertThatThrownBy(() -> RateLimiting.of(vertx, late).start())
                .hasMessage("deadline: deadline PT0S is out of range: expected at least 1 ms and at most a minute, for"
                        + " example 100 ms");
        RuleOptions login = new RuleOptions().setName("a").setPaths("login").setLimits(Limit.perMinute(5));
        assertThatThrownBy(() -> RateLimiting.of(
                                vertx, new RateLimitOptions().setName("x").addRule(login))
                        .start())
                .hasMessageContaining("rules[0].paths[0]: rule \"a\": ")
                .hasMessageContaining("does not begin with a slash");
    }

    @ParameterizedTest
    @CsvSource({"7d, P7D", "1D, P1D", "36h, PT36H", "PT2M, PT2M", "P2D, P2D", "250ms, PT0.25S"})
    void timesHaveTheUnitsOfSpring(String text, Duration read) {
        JsonObject json = new JsonObject().put("name", "orders").put("longest-hold", text);
        assertThat(new RateLimitOptions(json).getLongestHold()).isEqualTo(read);
    }

    @Test
    void unsetRuleOptionsHaveTheirDefaults() {
        RuleOptions rule = new RuleOptions();
        assertThat(rule.getWhenMissing()).isNull();
        assertThat(rule.getWhenAmbiguous()).isEqualTo(Rule.WhenAmbiguous.DENY);
        assertThat(rule.getWhenLookupFails()).isEqualTo(Rule.WhenLookupFails.USE_RULE);
    }

    /** Two values of the same type could be exchanged. */
    @Test
    void rulesAreReadWithTheirOwnValues() throws Exception {
        RuleOptions rule = all().getRules().get(0);
        for (Method setting : RuleSettings.class.getMethods()) {
            String name = setting.getName().substring(0, 1).toUpperCase(Locale.ROOT)
                    + setting.getName().substring(1);
            Method getter =
                    RuleOptions.class.getMethod((setting.getReturnType() == boolean.class ? "is" : "get") + name);
            assertThat(setting.invoke(rule.settings())).as(name).isEqualTo(getter.invoke(rule));
        }
    }

    @Test
    void jsonIsWrittenInOneForm() {
        JsonObject json = new JsonObject("""
            {"name": "orders", "cacheDenials": "2s", "debt": null, "headers": {"retry_after": false},
             "rules": [{"name": "a", "limits": "5/1m, 9/1h", "when-missing": "SKIP"}]}
            """);
        assertThat(new RateLimitOptions(json).toJson().encode())
                .isEqualTo("{\"name\":\"orders\",\"cache-denials\":\"2s\",\"headers\":{\"retry-after\":false},"
                        + "\"rules\":[{\"name\":\"a\",\"limits\":[\"5/1m\",\"9/1h\"],\"when-missing\":\"skip\"}]}");
        assertThat(json.fieldNames()).contains("cacheDenials", "debt");
    }

    @Test
    void optionNamesMayBeInCamelCase() {
        JsonObject json = new JsonObject()
                .put("name", "orders")
                .put(
                        "clientAddress",
                        new JsonObject().put("header", "FORWARDED").put("trustedProxies", "10.0.0.1"));

        assertThat(new RateLimitOptions(json).getTrustedProxies()).containsExactly("10.0.0.1");
    }

    @Test
    void noSecretIsInTheText() {
        RateLimitOptions options =
                new RateLimitOptions(new JsonObject().put("name", "orders").put("secret", "s3cret-s3cret-s3cret"));

        assertThat(options.toString()).contains("orders").doesNotContain("s3cret");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    {"nam": "x"}                                              | nam                            | there is no such setting: did you mean name? Expected one of cache-denials, client-address
                    {"redis.uri": "redis://localhost"}                        | redis.uri                      | there is no such setting: expected {"redis": {"uri": …}}
                    {"redisUri": "redis://localhost"}                         | redisUri                       | there is no such setting: expected {"redis": {"uri": …}}
                    {"trustedProxies": "10.0.0.1"}                            | trustedProxies                 | there is no such setting: expected {"client-address": {"trusted-proxies": …}}
                    {"rules": [{"limits.from": "plans"}]}                     | rules[0].limits.from           | there is no such setting: expected {"limits-from": …}
                    {"redis": {"redisUri": "redis://localhost"}}              | redis.redisUri                 | there is no such setting: expected one of cluster, namespace, uri
                    {"store": "lokal"}                                        | store                          | found "lokal": did you mean local? Expected one of auto, local
                    {"rules": [{"name": "login", "path": "/login"}]}          | rules[0].path                  | rule "login": there is no such setting: did you mean paths?
                    {"rules": [{"name": "login", "when-missing": "ignore"}]}  | rules[0].when-missing          | rule "login": found "ignore": expected one of
                    {"rules": [{"name": "login", "shadow": "yes"}]}           | rules[0].shadow                | rule "login": found yes
                    {"limiters": {"partner": {"limit": "10/s"}}}              | limiters.partner.limit         | there is no such setting: did you mean limits?
                    {"limiters": {"partner": {"limits": "often"}}}            | limiters.partner.limits        | limit "often"
                    {"limiters": {"partner": "10/s"}}                         | limiters.partner               | expected an object, for example {"limits": "10/s"}
                    {"limiters": [{"name": "partner"}]}                       | limiters                       | expected an object, for example {"partner": {"limits": "10/s"}}
                    {"limiter": {"partner": {"limits": "10/s"}}}              | limiter                        | did you mean limiters?
                    {"name": 5}                                               | name                           | expected a text
                    {"deadline": "soon"}                                      | deadline                       | for example "100ms"
                    {"deadline": 5}                                           | deadline                       | found 5, which has no unit: expected a time with its unit, for example "100ms"
                    {"deadline": "50us"}                                      | deadline                       | found 50us, expected a time
                    {"rules": [{"name": "a", "timeout": 20}]}                 | rules[0].timeout               | rule "a": found 20, which has no unit: expected a time with its unit, for example "50ms"
                    {"store": "redis"}                                        | store                          | expected one of auto, local
                    {"rules": {}}                                             | rules                          | expected an array of objects, for example [{"name": "address", "limits": "120/1m"}]
                    {"rules": [5]}                                            | rules[0]                       | expected an object, for example {"name": "address", "limits": "120/1m"}
                    {"redis": "redis://u:pw@localhost"}                       | redis                          | expected an object, for example {"uri": "redis://localhost:6379"}
                    {"postgres": "r2dbc:postgresql://localhost/orders"}       | postgres                       | expected an object, for example {"uri": "r2dbc:postgresql://localhost/orders"}
                    {"local": 0.5}                                            | local                          | expected an object, for example {"counts": 100000}
                    {"client-address": "forwarded"}                           | client-address                 | expected an object, for example {"ipv6-prefix": 56}
                    {"headers": false}                                        | headers                        | expected an object, for example {"retry-after": false}
                    {"rules": [{"limit": "5/1m"}]}                            | rules[0].limit                 | did you mean limits? Expected one of cost
                    {"rules": [{"limits": "often"}]}                          | rules[0].limits                | often
                    {"rules": [{"limits": "5 concurrent retry=1ms"}]}         | rules[0].limits                | retry time PT0.001S is out of range: expected 100ms to 24h, for example
                    {"rules": [{"limits": [5]}]}                              | rules[0].limits                | expected texts
                    {"rules": [{"cost": 1.5}]}                                | rules[0].cost                  | expected a whole number
                    {"rules": [{"shadow": "yes"}]}                            | rules[0].shadow                | expected true or false
                    {"local": {"share": "all"}}                               | local.share                    | expected a number
                    {"local": {"counts": 4294967297}}                         | local.counts                   | found 4294967297, expected a whole number up to 2147483647, for example 100000
                    {"debt": "much"}                                          | debt                           | found much, expected a number, for example 1.5
                    {"longest-hold": "long"}                                  | longest-hold                   | found long, expected a time
                    {"client-address": {}, "clientAddress": {}}               | clientAddress                  | it is also there as client-address
                    {"headers": {"ratelimit": true, "rate-limit": false}}     | headers.rate-limit             | it is also there as ratelimit
                    {"name": "x", "rules": [{"name": "a", "limits": "5 daily zone=Berlin"}]}            | rules[0].limits               | zone "Berlin" is unknown: expected one of the time-zone database or an offset, such as Europe/Berlin
                    """)
    void malformedJsonIsReportedWithItsSetting(String json, String setting, String why) {
        assertThatThrownBy(() -> new RateLimitOptions(new JsonObject(json)))
                .isInstanceOfSatisfying(
                        WrongSettingException.class,
                        e -> assertThat(e.setting()).isEqualTo(setting))
                .hasMessageContaining(why);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    {"rules": []}                                                                       | name                            | the limiter has no name
                    {"name": "a b"}                                                                     | name                            | a b
                    {"name": "x", "rules": [{"limits": "5/1m"}]}                                        | rules[0].name                   | the rule has no name
                    {"name": "x", "rules": [{"name": "a"}]}                                             | rules[0].limits                 | rule "a": the rule has no limit: expected one or more, for example 120/1m
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "paths": "login"}]}         | rules[0].paths[0]               | does not begin with a slash
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "exclude-paths": "/b, c"}]} | rules[0].exclude-paths[1]       | does not begin with a slash
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "paths": "/*/x"}]}          | rules[0].paths[0]               | a star before its end
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "paths": "/a/{id}"}]}       | rules[0].paths[0]               | has one of the characters { ? #, which no path contains
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "methods": "GETT"}]}        | rules[0].methods                | rule "a": method "GETT" is not registered for HTTP: did you mean GET?
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "key": "none"}]}            | rules[0].key                    | none
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "key": "bean:none"}]}       | rules[0].key                    | none
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "cost-from": "f"}]}         | rules[0].cost-from              | no CostSource has this name: expected RateLimiting.of(…).cost("f", …) before start()
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "key": "hashed(address)"}]} | rules[0].key                    | "secret" in the options of Vert.x
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "key": "header:X Api"}]}    | rules[0].key                    | a name has no space in it, for example header:X-Api-Key
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "key": "principal", "phase": "before-authentication"}]} | rules[0].phase | rule "a": key principal is not known before authentication: expected after-authentication
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m burst=3", "cost": 4}]}        | rules[0].cost                   | cost 4 exceeds limit 5/1m burst=3, so every request would be denied: expected at most 3
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m"}, {"name": "a", "limits": "5/1m"}]} | rules[1].name            | another rule has this name
                    {"name": "x", "redis": {"uri": "http://u:pw@localhost"}}                            | redis.uri                       | //…@localhost
                    {"name": "x", "redis": {"uri": "http://u:a@pw@localhost:6379"}}                     | redis.uri                       | //…@localhost:6379
                    {"name": "x", "redis": {"uri": "redis://localhost"}, "deadline": "2m"}              | deadline                        | deadline PT2M is out of range
                    {"name": "x", "redis": {"uri": "redis://localhost", "namespace": "a b"}}            | redis.namespace                 | a b
                    {"name": "x", "store": "local", "local": {"share": 3}}                              | local.share                     | 3
                    {"name": "x", "store": "local", "debt": -1}                                         | debt                            | debt -1.0 is out of range: expected 0 to 10 times each limit, for example 1
                    {"name": "x", "store": "local", "longest-hold": "0s"}                               | longest-hold                    | expected more than zero and at most 366 days, for example
                    {"name": "x", "store": "local", "deadline": 0}                                      | deadline                        | deadline PT0S is out of range: expected at least 1 ms
                    {"name": "x", "store": "local", "cache-denials": "2m"}                              | cache-denials                   | cacheDenials PT2M is out of range
                    {"name": "x", "client-address": {"trusted-proxies": "10.0.0.0/8"}}                  | client-address.header           | expected x-forwarded-for or forwarded
                    {"name": "x", "rules": [{"name": "a", "limits": "5/1m", "key": "path:id", "paths": "/users/:user, /a"}]} | rules[0].key     | rule "a": no path of the rule has the variable id: expected one that has, for example /users/:id
                    {"name": "x", "client-address": {"header": "forwarded"}}                            | client-address.trusted-proxies  | no network is trusted
                    {"name": "x", "limiters": {"partner": {}}}                                          | limiters.partner.limits         | there are none: expected limits, for example 10/s
                    {"name": "x", "limiters": {"partner": {"limits": "10/s, 20/s"}}}                    | limiters.partner.limits         | share
                    {"name": "x", "limiters": {"a b": {"limits": "10/s"}}}                              | limiters.a b                    | limiter name "x.a b" is not a name
                    {"name": "x", "secret": "short"}                                                    | secret                          | 16
                    """)
    void invalidSettingsPreventTheStart(String json, String setting, String why) {
        RateLimitOptions options = new RateLimitOptions(new JsonObject(json));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options).start())
                .isInstanceOfSatisfying(WrongSettingException.class, e -> {
                    assertThat(e.setting()).isEqualTo(setting);
                    assertThat(e.getMessage() + e.value()).contains(why).doesNotContain("pw");
                });
    }

    /** A limiter that was left open would probe its store every second, as the second one does. */
    @Test
    void rulesThatPreventTheStartCloseTheLimiter() {
        AtomicInteger prepared = new AtomicInteger();
        RateLimitOptions options = new RateLimitOptions(new JsonObject("""
                        {"name": "x", "deadline": "10s", "rules": [{"name": "a", "limits": "5 concurrent hold=10s"}]}
                        """));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options)
                        .store(unreachable(prepared))
                        .start())
                .isInstanceOf(WrongSettingException.class)
                .hasMessageContaining("could expire before a request begins");
        assertThat(prepared).hasValue(1);

        AtomicInteger preparedForNext = new AtomicInteger();
        RateLimiting next = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("{\"name\": \"y\"}")))
                .store(unreachable(preparedForNext))
                .start();
        await().atMost(Duration.ofSeconds(30)).until(() -> preparedForNext.get() > 3);
        next.limiter().close();
        assertThat(prepared).hasValue(1);
    }

    private static LimitStore unreachable(AtomicInteger prepared) {
        return new WithoutDeadline(LocalStore.bounded(16)) {
            @Override
            public Mono<Void> prepare(String node) {
                prepared.incrementAndGet();
                return Mono.error(new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
            }
        };
    }

    @ParameterizedTest
    @ValueSource(strings = {"18446744073709551617", "9223372036854775808", "1e30", "0.5"})
    void aNumberThatIsNoneOfOursIsNotRoundedToOne(String number) {
        JsonObject cost = new JsonObject(
                "{\"name\": \"x\", \"rules\": [{\"name\": \"a\", \"limits\": \"5/1m\", \"cost\": " + number + "}]}");
        JsonObject deadline = new JsonObject("{\"name\": \"x\", \"deadline\": " + number + "}");

        assertThatThrownBy(() -> new RateLimitOptions(cost))
                .isInstanceOf(WrongSettingException.class)
                .hasMessageContaining("rules[0].cost");
        assertThatThrownBy(() -> new RateLimitOptions(deadline))
                .isInstanceOf(WrongSettingException.class)
                .hasMessageContaining("deadline");
    }

    @Test
    void aPasswordThatInvalidatesTheUriIsInNoStackTrace() {
        RateLimitOptions options = new RateLimitOptions(
                new JsonObject("{\"name\": \"x\", \"redis\": {\"uri\": \"redis://:hunter2^x@localhost:6379\"}}"));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options).start())
                .isInstanceOf(WrongSettingException.class)
                .satisfies(wrong -> assertThat(Throwables.getStackTrace(wrong))
                        .contains("redis.uri")
                        .doesNotContain("hunter2"));
    }
}
