-- counts.lua: the clock of a script, and the format of a count in Redis. Every script begins with this file.
--
-- All values of version 3 of the format; the version is part of each key. Numbers are unsigned and little-endian; the
-- figure behind the colon is their length in bytes:
--
--   KEY       counter    'sgC' life:2 previous:7 current:7 start:6
--             bucket     'sgB' life:2 level:7 at:6 expires:6, and if it may be changed in place older:7 age:5
--             log        'sgL' life:2 used:6 newest:6 count:4 first:2 last:2 oldest:5 base:6 room:2 expires:6,
--                        then entries of offset:5 count:4
--             holds      'sgH' used:4 earliest:6 latest:6 last:6 ends:6, then for each hold id:16 expiry:6 length:4
--                        permits:2
--             quota      'sgQ' life:2 used:7 flags:1 start:6 end:6
--             ban        'sgN' life:2 level:1 start:6 end:6 expires:6, then the time:6 of each denial that counts
--   KEY!      reset      the time in microseconds, as text
--   KEY!!     restored   the life, and four numbers for each of two lost lives, as text
--   KEY!ID    of a reconciliation: the life, as text; of a settlement: empty
--   the instances of limiters, and what is published: see fleet.lua
--
-- The file of each kind explains its value.
--
-- Redis needs the same memory for 16 to 28 bytes, and for 29 to 44. So a counter and a quota (25) have 3 spare bytes, a
-- bucket (24 or 36) has 4 or 8, and the head of a log (44) has none. Spare bits: 2 in 'first', 'last' and 'room' of a
-- log, 3 in each number of 7 bytes, 6 in each time in milliseconds, except 5 in 'at' of a bucket.
--
-- The life of a count tells its value from an earlier one that was lost. It is set when a count without a value is
-- written: eight times a number, the microseconds of the clock modulo 8,191, plus 1. Every other write keeps it, so
-- it ends with the key; 0 means that there is no value. Its lowest three bits count the resets. No write shortens
-- the time to live of a value. So if a life is gone before the permits in one of its replies have expired, by this
-- clock and by another one, then data was lost. One exception: a denial or a peek at a lower rate than that of the
-- last take of a bucket reports permits that outlive the value, and they may be restored although they have
-- returned. That errs towards denying.
--
-- Refunds and resets leave an empty value, in which no permits are used. Decisions on it are the same as without one.
--
-- The key of a reset mark is that of its count with an exclamation mark appended. The mark holds the time of the last
-- reset, in microseconds as text, and lives as long as permits from before the reset could be refunded.
--
-- The mark of what was restored has two exclamation marks. It holds the life into which permits were restored, and for
-- each of the last two lives of which they were: that life, and three numbers that depend on the kind. It lives as long
-- as these permits could be in use.
--
-- The mark of a source of reconciliations holds the number of the last one that was charged, and the life in which that
-- was: in another life its permits are gone, and it is charged again.
--
-- A value that no script of ours has written is foreign, and is not changed.
--
-- The clock is that of Redis, read once per script. If it was set back, all hits in the future are moved to now, and
-- even a denial writes this (mustWrite): otherwise clients would be denied until the clock has caught up. The value may
-- then get an earlier expiry, as if all had been taken now.

local A_LOG = 5007219 -- 'sgL'
local A_COUNTER = 4417395 -- 'sgC'
local A_BUCKET = 4351859 -- 'sgB'
local A_BUCKET_SET_BACK = 6449011 -- 'sgb'
local A_QUOTA = 5334899 -- 'sgQ'
local A_BAN = 5138291 -- 'sgN'
local HOLDS = 4745075 -- 'sgH'
local COUNTER_LENGTH, SHORT_BUCKET, LONG_BUCKET, QUOTA_LENGTH = 25, 24, 36, 25 -- bytes
local EXACT = 9007199254740992 -- a double below this is an integer that was not rounded
local MOST_EXACT = EXACT - 1
local HEAD = 44
local BAN_HEAD, STRIKE, MOST_LEVEL = 24, 6, 40
local FRONT, BEHIND_HEAD = '5', '44' -- positions behind the life and behind the head; text, which Redis sends faster
local ENTRY = 9
local FIRST_PIECE, LONGEST_PIECE = 16, 512 -- in entries
local MOST_LEFT = 64
local MOST_ENTRIES = 10000 -- in one log
local MOST_SPARE = 256
local LONGEST_LEASE, LEASES_IN_A_WINDOW = 100, 100 -- in milliseconds; see Limit.leaseTime
local LEASED = 2 ^ 47 -- added to the time of a bucket
local SOON = 1000 -- in milliseconds; the time by which a bucket that was empty before lives longer than necessary

local call, floor, max, min = redis.call, math.floor, math.max, math.min
local pack, unpackFrom = struct.pack, struct.unpack

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = floor(micros / 1000)
local RESETS = 8 -- that a life tells apart
local birth = (micros % 8191 + 1) * RESETS -- the life of a count that gets a value now

-- Returns whether a deadline on this clock has passed; 0 is no deadline. After it the caller may have used a fallback.
local function isLate(deadline)
  return deadline > 0 and micros > deadline
end

-- Returns for how many milliseconds leased permits can be spent.
local function leaseTimeOf(limit)
  return min(LONGEST_LEASE, floor(limit.window / LEASES_IN_A_WINDOW))
end

-- Returns the first bytes of a value, up to the first byte behind a head, or up to another one: '' if the key does not
-- exist, nil if the value is not a string.
local function firstBytes(key, last)
  local bytes = redis.pcall('GETRANGE', key, '0', last or BEHIND_HEAD)
  if type(bytes) == 'table' then
    if string.find(bytes.err, 'WRONGTYPE', 1, true) then
      return nil
    end
    error(bytes.err, 0)
  end
  return bytes
end
