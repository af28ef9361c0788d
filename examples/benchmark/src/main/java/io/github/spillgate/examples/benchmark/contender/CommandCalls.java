package io.github.spillgate.examples.benchmark.contender;

import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** The calls of each command that a server has counted; by Redis, inside and outside of scripts. */
public record CommandCalls(Map<String, Sum> byCommand) {

    /** The name of all statements of SQL, without BEGIN and COMMIT. */
    public static final String STATEMENT = "statement";

    private static final Set<String> WHOLES =
            Set.of(STATEMENT, "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro");

    public CommandCalls {
        byCommand = Map.copyOf(byCommand);
    }

    public Sum of(String command) {
        return byCommand.getOrDefault(command, Sum.NONE);
    }

    /** Scripts, functions and statements of SQL. The time of a script includes that of the commands that it calls. */
    public Sum scripts() {
        return WHOLES.stream().map(this::of).reduce(Sum.NONE, Sum::plus);
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

        /** Returns the sum with more calls in the same time. */
        Sum times(double factor) {
            return new Sum(Math.round(calls * factor), micros);
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
