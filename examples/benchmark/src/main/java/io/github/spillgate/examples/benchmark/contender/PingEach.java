package io.github.spillgate.examples.benchmark.contender;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.reactive.RedisReactiveCommands;

/** One PING for each decision: the minimum for a limiter with one round trip for each decision. */
final class PingEach implements Contender {

    private final RedisClient client;
    private final RedisReactiveCommands<String, String> commands;

    PingEach(Setting setting) {
        client = RedisClient.create(setting.uri());
        commands = client.connect().reactive();
    }

    @Override
    public void decide(String key, Answer answer) {
        AnswerSubscriber.of(commands.ping(), answer, (pong, receiver) -> receiver.decided(true));
    }

    @Override
    public CommandCalls.Sum sent(CommandCalls calls) {
        return calls.of("ping");
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
