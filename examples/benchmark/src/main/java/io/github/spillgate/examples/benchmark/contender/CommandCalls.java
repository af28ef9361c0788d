package io.github.spillgate.examples.benchmark.contender;

import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** The calls of each command that Redis has counted, inside and outside of scripts. */
public record CommandCalls(Map<String, Sum> byCommand) {

    private static final Set<String> SCRIPTS = Set.of("eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro");

    public CommandCalls {
        byCommand = Map.copyOf(byCommand);
    }

    public Sum of(String command) {
        return byCommand.getOrDefault(command, Sum.NONE);
    }

    /** Scripts and functions. Their time includes that of the commands that they call. */
    public Sum scripts() {
        return SCRIPTS.stream().map(this::of).reduce(Sum.NONE, Sum::plus);
    }

    public CommandCalls since(CommandCalls before) {
        return new CommandCalls(byCommand.entrySet().stream()
                .collect(Collectors.toMap(
                        Map.Entry::getKey, entry -> entry.getValue().minus(before.of(entry.getKey())))));
    }

    /** A number of calls, and their time in microseconds. */
    public record Sum(long calls, double micros) {

        static final Sum NONE = new Sum(0, 0);

        public Sum plus(Sum other) {
            return new Sum(calls + other.calls, micros + other.micros);
        }

        Sum minus(Sum other) {
            return new Sum(calls - other.calls, micros - other.micros);
        }

        /**
         * Returns the sum without this number of calls. Each is assumed to take the mean time, because Redis does not
         * distinguish them.
         */
        public Sum without(long some) {
            return calls == 0 ? NONE : new Sum(calls - some, micros * (calls - some) / calls);
        }
    }
}
