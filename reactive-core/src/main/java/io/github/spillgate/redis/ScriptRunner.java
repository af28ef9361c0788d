package io.github.spillgate.redis;

import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.redis.lane.CommandSender;
import io.github.spillgate.redis.lane.Errors;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Runs one script on one server, for all of its lanes. A call sends the script's digest. If the server does not know
 * it, because it is new, was restarted or lost its scripts, one call sends the text; then the digest is enough again.
 */
final class ScriptRunner {
    // Design notes.
    //
    // EVAL both runs a script and makes its digest known, so it is a call's own command that brings the text, and no
    // other command is needed. Proxies and managed services refuse SCRIPT more often than EVAL.
    //
    // Thousands of calls may be in flight when Redis loses the script, and each fails. One of them sends the text, and
    // the others wait until that one has ended. So a call remembers the last load that had a reply when it was sent.
    // If there is a newer one by the time the call fails, that one helps: it had no reply when the call was sent, so it
    // is not what Redis has lost; or if it is, the next failure shows it. To remember the newest load, ended or not,
    // would be wrong: a call may overtake it on the way to Redis, and would then send the text again.
    //
    // No call waits for long, or fails because of another one: the connection of another lane may be dead, and a
    // waiting call keeps the place of its batch. A call that finds the script missing again sends the text itself. So
    // a call needs three commands at most.
    //
    // Some services forget each script at once, know no EVALSHA, or have several servers behind one address. If one
    // load after the other makes no digest work, all calls send the text for a while. Then the digest is tried again.
    //
    // A call that has waited leaves the connection's thread first, which has replies to read.

    /** How long a call waits for another one that sends the text. */
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(1);

    /** After how many loads in a row without any success of a digest each call sends the text. */
    private static final int MOST_IN_VAIN = 3;

    /** For how long each call sends the text. */
    private static final long WITH_TEXT = Duration.ofMinutes(1).toNanos();

    private final Script script;
    private final LongSupplier nanoTime;
    private final AtomicReference<@Nullable Load> newest = new AtomicReference<>();
    private final AtomicReference<@Nullable Load> replied = new AtomicReference<>();

    ScriptRunner(Script script, LongSupplier nanoTime) {
        this.script = script;
        this.nanoTime = nanoTime;
    }

    /**
     * Runs the script; its reply is emitted on the connection's thread.
     *
     * @param request returns the request when it is sent, because it may depend on the server's clock
     */
    Mono<byte[]> run(CommandSender sender, byte[][] keys, Function<StoreClock, byte[]> request) {
        Call call = new Call(sender, keys, request);
        return sender.send(call).onErrorResume(ScriptRunner::isUnknown, call::runUnknown);
    }

    /** Sends the text. */
    RedisFuture<byte[]> sendText(RedisAsyncCommands<byte[], byte[]> commands, byte[][] keys, byte[] request) {
        return commands.eval(script.text(), ScriptOutputType.VALUE, keys, request);
    }

    /** Returns whether the server does not know the digest, or no digests at all. */
    private static boolean isUnknown(Throwable e) {
        return e instanceof RedisNoScriptException
                || (e instanceof RedisCommandExecutionException && Errors.isUnknownCommand(e, "EVALSHA"));
    }

    /** A call of the script, which is sent with the digest. Must be subscribed to once. */
    private final class Call implements CommandSender.Command<byte[]> {

        private final CommandSender sender;
        private final byte[][] keys;
        private final Function<StoreClock, byte[]> request;

        /** The last load that had a reply when this was sent; used by the thread that sends it, and afterwards. */
        private volatile @Nullable Load known;

        Call(CommandSender sender, byte[][] keys, Function<StoreClock, byte[]> request) {
            this.sender = sender;
            this.keys = keys;
            this.request = request;
        }

        @Override
        public Publisher<byte[]> on(RedisReactiveCommands<byte[], byte[]> commands, StoreClock clock) {
            Load load = replied.get();
            known = load;
            if (load != null && load.isFollowedByText()) {
                return evalText(commands, clock);
            }
            Flux<byte[]> reply = commands.evalsha(script.sha1(), ScriptOutputType.VALUE, keys, request.apply(clock));
            return load == null || load.hasHelped ? reply : reply.doOnNext(any -> load.hasHelped = true);
        }

        private Flux<byte[]> evalText(RedisReactiveCommands<byte[], byte[]> commands, StoreClock clock) {
            return commands.eval(script.text(), ScriptOutputType.VALUE, keys, request.apply(clock));
        }

        /** Sends the text, or the digest again after another call has sent the text. */
        Mono<byte[]> runUnknown(Throwable unknown) {
            Load before = known;
            Load load = newest.get();
            while (load == null || load == before || load.hasFailed()) {
                Load mine = new Load(load);
                if (newest.compareAndSet(load, mine)) {
                    return mine.around(sender.send(this::evalText));
                }
                load = newest.get();
            }
            return load.awaited()
                    .publishOn(Background.scheduler())
                    .then(sender.send(this))
                    .onErrorResume(
                            ScriptRunner::isUnknown,
                            again -> newest.updateAndGet(Load::new).around(sender.send(this::evalText)));
        }
    }

    /** A call that sends the text. */
    private final class Load {

        /** The number of the load; a newer load has a higher one. */
        private final long number;

        /** The number of loads before this one that had a reply and have helped no later call. */
        private final int inVain;

        private final CompletableFuture<Void> end = new CompletableFuture<>();

        /** When the reply arrived. */
        private volatile long repliedAt;

        private volatile boolean hasReply;

        /** Whether a later call succeeded with the digest. */
        private volatile boolean hasHelped;

        Load(@Nullable Load before) {
            number = before == null ? 1 : before.number + 1;
            inVain = before == null || before.hasHelped
                    ? 0
                    : Math.min(before.hasReply ? before.inVain + 1 : before.inVain, MOST_IN_VAIN);
        }

        /** Returns the call, which ends this load when it ends. */
        Mono<byte[]> around(Mono<byte[]> call) {
            return call.doOnNext(reply -> replied()).doFinally(signal -> end.complete(null));
        }

        /** Completes once the call has ended, however, or after a while. */
        Mono<Void> awaited() {
            return Mono.fromFuture(end, true).timeout(LONGEST_WAIT, Mono.empty());
        }

        /** Returns whether the call ended without a reply, so that the script may still be unknown. */
        boolean hasFailed() {
            return end.isDone() && !hasReply;
        }

        /** Returns whether calls send the text, because digests do not work. */
        boolean isFollowedByText() {
            return inVain == MOST_IN_VAIN && nanoTime.getAsLong() - repliedAt < WITH_TEXT;
        }

        private void replied() {
            repliedAt = nanoTime.getAsLong();
            hasReply = true;
            // A load that took longer than calls wait may end after its successor.
            replied.accumulateAndGet(
                    this, (known, mine) -> known != null && mine != null && known.number > mine.number ? known : mine);
            end.complete(null);
        }
    }
}
