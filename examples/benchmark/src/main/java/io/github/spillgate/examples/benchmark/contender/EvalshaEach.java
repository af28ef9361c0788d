package io.github.spillgate.examples.benchmark.contender;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.reactive.RedisScriptingReactiveCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Objects;
import java.util.stream.Stream;
import reactor.core.publisher.Flux;

/** A hand-written sliding window counter: a short script, and one EVALSHA for each decision. */
final class EvalshaEach implements Contender {

    private final AbstractRedisClient client;
    private final RedisScriptingReactiveCommands<String, String> commands;
    private final String script;
    private final String[] arguments;
    private final int limits;

    private EvalshaEach(
            Setting setting, AbstractRedisClient client, RedisScriptingReactiveCommands<String, String> commands) {
        this.client = client;
        this.commands = commands;
        script = Objects.requireNonNull(commands.scriptLoad(script()).block(), "Redis has not named the script");
        limits = setting.rates().size();
        arguments = setting.rates().stream()
                .flatMap(rate -> Stream.of(rate.permits(), rate.window().toMillis()))
                .map(number -> Long.toString(number))
                .toArray(String[]::new);
    }

    static EvalshaEach alone(Setting setting) {
        RedisClient client = RedisClient.create(setting.uri());
        return new EvalshaEach(setting, client, client.connect().reactive());
    }

    /** Opens the contender on a cluster connection of Lettuce, which finds the node of each key. */
    static EvalshaEach inCluster(Setting setting) {
        RedisClusterClient client = RedisClusterClient.create(setting.uri());
        return new EvalshaEach(setting, client, client.connect().reactive());
    }

    private static byte[] script() {
        String name = "sliding-window-counter.lua";
        try (InputStream text = EvalshaEach.class.getResourceAsStream(name)) {
            return Objects.requireNonNull(text, "there is no " + name).readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + name, e);
        }
    }

    @Override
    public void decide(String key, Answer answer) {
        AnswerSubscriber.of(ask(key), answer, (taken, receiver) -> receiver.decided(taken == 1));
    }

    /** Returns 1 for an allowed request, and 0 for a denied one. */
    Flux<Long> ask(String key) {
        return commands.evalsha(script, ScriptOutputType.INTEGER, keys(key), arguments);
    }

    private String[] keys(String key) {
        if (limits == 1) {
            return new String[] {key};
        }
        String[] keys = new String[limits];
        for (int i = 0; i < limits; i++) {
            keys[i] = "{" + key + "}" + i;
        }
        return keys;
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
