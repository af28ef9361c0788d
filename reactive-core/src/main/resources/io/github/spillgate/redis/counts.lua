-- counts.lua: how a count is stored, and when it is. With counter.lua and log.lua it stands before decide.lua,
-- refund.lua and settle.lua, and by itself before reset.lua, which are the scripts; they say what their keys and
-- arguments are.
--
-- What is stored. Numbers are unsigned, little-endian, of so many bytes:
--
--   counter:  'sgC' previous:7 current:7 start:6
--   log:      'sgL' used:6 newest:6 count:4 first:2 last:2 oldest:5 base:6 room:2 expires:6,
--             then entries of offset:5 count:4
--
-- The hits of one slot are one entry. The newest entry is 'newest' and 'count' in the head: most hits of a busy key
-- fall into the slot that is open already, and the log of a key that is seldom seen fits into Redis's smallest kind of
-- string. The older ones follow in order of time, each in the slot base + offset; those before 'first' have left, those
-- from 'last' on are spare. There is room for 'room' in all. 'oldest' is the offset of the entry 'first', if there is
-- one. 'used' is the sum of the counts that had not left when it was written.
--
-- A log is changed in place, and as little of it is read as can be: Lua takes a nanosecond for every byte of a string
-- that it is given. Mostly the head tells all. When there is no room for one more entry, the log is written anew as a
-- whole, without those that have left and with some room to spare. Its expiry follows the newest hit, but is written
-- only when it would come too early, and is then set somewhat later: so most hits need not write it. A counter's expiry
-- follows its window.
--
-- Beside a count that has been reset there is a mark, under its name and an exclamation mark: when that was, in
-- microseconds as text. It stays as long as something that was taken before can be given back.
--
-- A value that no script of ours has written is foreign, and is left as it is. One that begins like a log and is
-- shorter than its head says is torn. To look at its length costs another call; who does not is told by an error with
-- the key, when it comes to the missing entries.
--
-- The clock is Redis's own, read once. If it has stepped back, what is stamped later than now is pulled to now, and
-- that is written whatever else happens, or a client would be kept out until the clock had caught up. What has left is
-- dropped when something else is written; by a denial or a peek only if it is more than MOST_LEFT entries, which nobody
-- should walk over again and again.

local A_LOG = 5007219 -- 'sgL'
local A_COUNTER = 4417395 -- 'sgC'
local HEAD = 42
local FRONT = '3'
local BEHIND_HEAD = '42' -- as text: Redis takes long to write a number
local ENTRY = 9
local FIRST_PIECE, LONGEST_PIECE = 16, 512 -- in entries
local MOST_LEFT = 64
local MOST_ENTRIES = 10000 -- in one log
local MOST_SPARE = 256

local call, floor, max, min = redis.call, math.floor, math.max, math.min
local pack, unpackFrom = struct.pack, struct.unpack

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = floor(micros / 1000)

-- Whether a deadline on this clock has passed; 0 is none. Its caller may have fallen back on a local store since.
local function isLate(deadline)
  return deadline > 0 and micros > deadline
end

-- What a value begins with, up to the first byte behind a head; '' if there is none; nil if it is not even a string.
local function read(key)
  local bytes = redis.pcall('GETRANGE', key, '0', BEHIND_HEAD)
  if type(bytes) == 'table' then
    if string.find(bytes.err, 'WRONGTYPE', 1, true) then
      return nil
    end
    error(bytes.err, 0)
  end
  return bytes
end
