package io.github.spillgate.store;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.store.CompareAndWriteStore.Change;
import io.github.spillgate.store.CompareAndWriteStore.Row;
import io.github.spillgate.store.CompareAndWriteStore.Rows;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Tasks that share a read, unless their rows are known, and then a write of what has changed; perhaps further ones. */
final class RowBatch {
    // Design notes.
    //
    // Tasks with a key in common are a group. They are computed in order on one page, and are one change: a row cannot
    // be written twice in one step. Each group is answered as soon as its result is known.
    //
    // A change has all rows of its group, also those that keep their value: a decision on a row that another process
    // has changed since would be wrong. A group that changes nothing is computed on rows that were read. So is one with
    // holders: their owners count the hold time from the request, and the time of remembered rows may be earlier.
    //
    // The deadline of a change is on the store's clock. When a reply arrives, that clock shows at least the time in the
    // reply. So the time in the reply, plus what is left now, is not after the deadline. It is earlier by the time that
    // the reply took, so a change may be refused although some time is left. Then it is computed again.
    //
    // A process that has written a row knows its version first, so its next write also comes first, and the others may
    // lose for as long as it goes on. So a group that has lost several times gives its rows new versions, and a process
    // that finds a new version with the value that it knows pauses, because the write of that group comes next. Such a
    // conflict does not count as lost: otherwise many processes would mostly void the writes of each other.
    //
    // A row that was not written in time, and still has the version that was expected, is locked by another process,
    // which may take long. Its tasks leave the batch, and are queued again after a pause.

    /** After how many changes of other processes a group gives its rows new versions. */
    private static final int MOST_LOST = 8;

    private final Engine engine;

    // Requests follow each other, so one thread at a time uses these.

    /** The rows as they were last read or remembered. */
    private final Map<String, Row> rows = new HashMap<>();

    /** The keys of the rows that were read, and not only remembered. */
    private final Set<String> read = new HashSet<>();

    /** How often this batch was written. */
    private int writes;

    /** Whether another process has just given a row a new version, so that its write comes next. */
    private boolean isOtherNext;

    /** How long the last request took, in nanoseconds. */
    private long roundTrip;

    RowBatch(Engine engine) {
        this.engine = engine;
    }

    void start(List<Task<?>> tasks) {
        Collection<TaskGroup> groups = groups(tasks);
        long micros = engine.written().micros();
        for (TaskGroup group : groups) {
            for (String key : group.keys) {
                Row row = engine.written().find(key, micros);
                if (row != null) {
                    rows.put(key, row);
                }
            }
        }
        compute(groups, micros);
    }

    /** Sends a request about groups, notes the rows of the reply, and passes it on. */
    private void send(Mono<Rows> request, Collection<TaskGroup> groups, BiConsumer<Long, Map<String, Row>> onReply) {
        long sentAt = Time.nanos();
        request.single()
                .map(reply -> {
                    roundTrip = Time.nanos() - sentAt;
                    engine.written().noteClock(reply.micros());
                    Map<String, Row> byKey = new HashMap<>();
                    reply.rows().forEach(row -> byKey.put(row.key(), row));
                    return (Runnable) () -> onReply.accept(reply.micros(), byKey);
                })
                .subscribe(Runnable::run, error -> fail(groups, error));
    }

    /** Computes groups on their rows, after a read if that is necessary, and writes what has changed. */
    private void compute(Collection<TaskGroup> groups, long micros) {
        long now = Time.nanos();
        List<String> unknown = new ArrayList<>();
        List<TaskGroup> done = new ArrayList<>();
        List<TaskGroup> changed = new ArrayList<>();
        List<Change> changes = new ArrayList<>();
        for (TaskGroup group : groups) {
            boolean isRead = read.containsAll(group.keys);
            List<Write> some =
                    isRead || rows.keySet().containsAll(group.keys) ? group.compute(micros, now, isRead) : List.of();
            if (!some.isEmpty()) {
                changed.add(group);
                changes.add(new Change(some, group.deadline(micros, now)));
            } else if (isRead) {
                done.add(group);
            } else {
                unknown.addAll(group.keys);
            }
        }
        if (!unknown.isEmpty()) {
            read(Mono.defer(() -> engine.store().read(unknown)), unknown, groups);
            return;
        }
        answer(done, changed.isEmpty());
        if (changed.isEmpty()) {
            return;
        }
        if (writes == Task.MOST_TRIES) {
            fail(changed, contention(changed.get(0)));
        } else if (changed.stream().anyMatch(group -> group.lost >= MOST_LOST)) {
            renumber(changed);
        } else if (isOtherNext) {
            isOtherNext = false;
            long pause = Math.min(roundTrip, Engine.LONGEST_PAUSE.toNanos());
            Schedulers.parallel().schedule(() -> compute(changed, micros), pause, TimeUnit.NANOSECONDS);
        } else {
            write(changes, changed);
        }
    }

    private void read(Mono<Rows> request, Collection<String> keys, Collection<TaskGroup> groups) {
        send(request, groups, (micros, current) -> {
            replace(keys, current);
            compute(groups, micros);
        });
    }

    /** Gives the rows of those groups new versions that have lost so often. */
    private void renumber(List<TaskGroup> groups) {
        isOtherNext = false;
        Map<String, Long> versions = new HashMap<>();
        for (TaskGroup group : groups) {
            if (group.lost >= MOST_LOST) {
                group.lost = 0;
                group.keys.forEach(key -> versions.put(key, Page.newVersion()));
            }
        }
        read(Mono.defer(() -> engine.store().renumber(versions)), versions.keySet(), groups);
    }

    private void write(List<Change> changes, List<TaskGroup> groups) {
        writes++;
        send(Mono.defer(() -> engine.store().write(changes)), groups, (micros, current) -> {
            List<TaskGroup> written = new ArrayList<>();
            List<TaskGroup> locked = new ArrayList<>();
            List<TaskGroup> conflicting = new ArrayList<>();
            for (int i = 0; i < changes.size(); i++) {
                TaskGroup group = groups.get(i);
                if (!group.hasAny(current)) {
                    written.add(group);
                    engine.written().put(changes.get(i).writes(), group.micros);
                } else if (group.hasSameVersions(current)
                        && micros <= changes.get(i).deadline()) {
                    locked.add(group);
                } else {
                    conflicting.add(group);
                    noteConflict(group, current);
                    replace(group.keys, current);
                }
            }
            answer(written, locked.isEmpty() && conflicting.isEmpty());
            postpone(locked, conflicting.isEmpty());
            if (!conflicting.isEmpty()) {
                compute(conflicting, micros);
            }
        });
    }

    private void noteConflict(TaskGroup group, Map<String, Row> current) {
        if (!group.hasSameValues(current)) {
            group.lost++;
        } else if (!group.hasSameVersions(current)) {
            isOtherNext = true;
        }
    }

    /** Replaces rows, those that are missing too, by what was read. */
    private void replace(Collection<String> keys, Map<String, Row> current) {
        engine.written().remove(keys);
        read.addAll(keys);
        for (String key : keys) {
            rows.compute(key, (unused, before) -> current.get(key));
        }
    }

    private void fail(Collection<TaskGroup> groups, Throwable error) {
        groups.forEach(group -> group.fail(error));
        answer(groups, true);
    }

    private void postpone(Collection<TaskGroup> groups, boolean isLast) {
        if (groups.isEmpty()) {
            return;
        }
        List<String> keys = new ArrayList<>();
        for (TaskGroup group : groups) {
            engine.postpone(group.tasks, contention(group));
            keys.addAll(group.keys);
        }
        engine.free(keys, isLast);
    }

    private void answer(Collection<TaskGroup> groups, boolean isLast) {
        if (groups.isEmpty()) {
            return;
        }
        List<Task<?>> tasks = new ArrayList<>();
        List<String> keys = new ArrayList<>();
        for (TaskGroup group : groups) {
            tasks.addAll(group.tasks);
            keys.addAll(group.keys);
        }
        Engine.answer(tasks);
        engine.free(keys, isLast);
    }

    private LimitStoreException contention(TaskGroup group) {
        return new LimitStoreException(
                Kind.UNAVAILABLE,
                "store " + engine.store() + " did not write \""
                        + group.keys.iterator().next()
                        + "\", and charged nothing: other processes changed or locked it before each of "
                        + Task.MOST_TRIES
                        + " attempts; expected fewer processes that charge one key at a time, for example with a leased"
                        + " limit such as Limit.perSecond(1000).leased()");
    }

    /** Groups the tasks that have keys in common, directly or by others. */
    private Collection<TaskGroup> groups(List<Task<?>> tasks) {
        Map<String, TaskGroup> byKey = new HashMap<>();
        for (Task<?> task : tasks) {
            TaskGroup group = new TaskGroup();
            for (String key : task.keys()) {
                TaskGroup other = byKey.get(key);
                if (other != null && other != group) {
                    TaskGroup joined = group;
                    other.tasks.addAll(joined.tasks);
                    other.keys.addAll(joined.keys);
                    joined.keys.forEach(each -> byKey.put(each, other));
                    group = other;
                }
                group.keys.add(key);
                byKey.put(key, group);
            }
            group.tasks.add(task);
        }
        return new LinkedHashSet<>(byKey.values());
    }

    /** Tasks with keys in common. */
    private final class TaskGroup {

        private final Set<String> keys = new LinkedHashSet<>();
        private final List<Task<?>> tasks = new ArrayList<>();

        /** The time of its last decision. */
        private long micros;

        /** How often others have changed its values first, since it last gave its rows new versions. */
        private int lost;

        boolean hasSameVersions(Map<String, Row> current) {
            return keys.stream().allMatch(key -> {
                Row row = current.get(key);
                return row != null && row.version() == row(key).version();
            });
        }

        boolean hasSameValues(Map<String, Row> current) {
            return keys.stream().allMatch(key -> {
                Row row = current.get(key);
                return row != null && Arrays.equals(row.value(), row(key).value());
            });
        }

        boolean hasAny(Map<String, Row> current) {
            return keys.stream().anyMatch(current::containsKey);
        }

        /** Returns what to write; empty if the tasks change nothing, have failed, or need rows that were read. */
        List<Write> compute(long from, long now, boolean isRead) {
            try {
                Page page = new Page(
                        engine.store().source(),
                        from,
                        keys.stream().map(this::row).toList());
                for (Task<?> task : tasks) {
                    if (isOver(task, now)) {
                        engine.failLate(task);
                    } else {
                        task.compute(page);
                    }
                }
                micros = page.micros();
                return isRead || !page.hasHolds() ? page.writes() : List.of();
            } catch (RuntimeException e) {
                fail(e);
                return List.of();
            }
        }

        private Row row(String key) {
            Row row = rows.get(key);
            if (row == null) {
                throw new LimitStoreException(
                        Kind.REJECTED,
                        "store " + engine.store() + " returned no row for \"" + key + "\": expected one for each key"
                                + " of a read, and of a change that was not written, for example new Row(key, new"
                                + " byte[0], 0)");
            }
            return row;
        }

        /** Returns the last moment of the change on the store's clock. */
        long deadline(long micros, long now) {
            long earliest = LimitStore.NO_DEADLINE;
            for (Task<?> task : tasks) {
                if (!isOver(task, now)) {
                    earliest = Math.min(earliest, task.deadline());
                }
            }
            return earliest == LimitStore.NO_DEADLINE ? Long.MAX_VALUE : micros + (earliest - now) / 1_000;
        }

        void fail(Throwable error) {
            tasks.forEach(task -> task.fail(error));
        }

        /** Returns whether a task takes no effect any more. */
        private static boolean isOver(Task<?> task, long now) {
            return task.isDone() || Engine.isAfter(task.deadline(), now);
        }
    }
}
