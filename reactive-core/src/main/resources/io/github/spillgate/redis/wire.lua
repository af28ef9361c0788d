-- wire.lua: the format of a script's argument and reply. ScriptRequest.java writes the argument, kinds.lua and
-- fast-path.lua read it and write the reply, and ScriptReply.java reads the reply.
--
-- Numbers are unsigned and little-endian; the figure behind the colon is their length in bytes. ARGV[1] begins with the
-- limits, each of them once. What follows refers to them by their position, beginning with 1:
--
--   limits:2, then for each limit
--     kind:1         1 for a log, 2 for a counter with windows from the first hit, 3 for a counter with windows aligned
--                    to the clock, 4 for a token bucket, 5 for a concurrency limit, 6 for a quota, 7 for a ban
--     permits:7      the permits of a window; of a bucket, those that return in a window; of a concurrency limit, those
--                    that may be held at the same time; of a ban, the denials that begin it
--     window:6       the length of a window or, of a concurrency limit, the hold time, in milliseconds; of a quota, the
--                    first of three boundaries, in milliseconds on this clock; of a ban, the window of the denials
--     resolution:6   of a log, the length of a slot in milliseconds; of a bucket, the burst in permits; of a quota, the
--                    second boundary; of a ban, its time in milliseconds; of others, 1
--     option:1       1 if denied requests count, else 0; of a quota, plus twice the percentage at which it is near;
--                    of a ban, plus 2 if it grows
--     third:6        the third boundary of a quota; of others, and if the request opens no period, 0
--
-- The reply of decide.lua, reconcile.lua, renew.lua and settle.lua is the time in microseconds:7, and then the usages.
-- One usage:
--
--   granted:4        the number of equal requests that are granted, which are the first ones; of a lease, and
--                    in the other scripts, what the header of the script says
--   status:1         0, or why the count does not grant more: DENIED, FOREIGN (the value is not ours), UNWRITTEN (the
--                    charge cannot be written), LATE (the deadline has passed, or the time is not within the
--                    boundaries of a quota)
--   life:2           the life of the count, see counts.lua; 0 if it has no value, or holds permits
--   three figures:7, which the file of the kind explains, with times in milliseconds
--
-- The life and what follows are 0 if decide.lua did not decide the request, because one of its counts is FOREIGN,
-- UNWRITTEN or LATE.

local LOG, COUNTER, ALIGNED_COUNTER, BUCKET, CONCURRENT, QUOTA, BAN = 1, 2, 3, 4, 5, 6, 7
local TAKE, LEASE = 1, 2 -- modes of a group, see decide.lua
local DENIED, FOREIGN, UNWRITTEN, LATE = 1, 2, 3, 4
local USAGE = '<I4I1I2I7I7I7'
local GRANT, GRANT_OF_ONE = '<I4I3I7I7I7', '<I7I4I3I7I7I7' -- a usage with the status 0 and the life as one number

local argument = ARGV[1]
