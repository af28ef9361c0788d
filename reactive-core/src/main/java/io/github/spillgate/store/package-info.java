/** A store for anything that can compare and write, such as a database: the rules run in this process. */
@NullMarked
package io.github.spillgate.store;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   The interface    CompareAndWriteStore: what a store implements, and all of LimitStore on top of it
//   What is done     Decisions, Corrections, Reconciliations, Registrations: each call becomes tasks, which compute on
//                    the rows of a Page. The rules of each kind are in count
//   When it is done  Engine queues each Task, and sends it in a RowBatch: one read, unless the rows are among the
//                    WrittenRows, and one write of what has changed

import org.jspecify.annotations.NullMarked;
