/** The store in PostgreSQL, on R2DBC: rows with versions, which this process decides on. */
@NullMarked
package io.github.spillgate.postgres;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision       CompareAndWriteStore, of the package store, computes it; PostgresStore reads and writes the rows
//   The statements   Statements reads the files read.sql, write.sql, update.sql, renumber.sql, sweep.sql and
//                    schema.sql, which say what they do
//   Connections      PostgresUris reads a URI; Connections opens, reuses and replaces connections; Sweeper deletes
//                    expired rows now and then
//   Errors           PostgresErrors translates those of PostgreSQL and R2DBC, with their remedies

import org.jspecify.annotations.NullMarked;
