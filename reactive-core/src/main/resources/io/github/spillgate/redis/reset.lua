-- reset.lua: empties counts, and records when.
--
-- KEYS      the keys of the counts; no two are equal; then the keys of their reset marks
-- ARGV[1]   deadline:7   the latest time of the reset, in microseconds on this clock; 0 if there is none
--           for each mark
--             lasts:7      for how many milliseconds permits from before the reset could be refunded
--
-- Reply: empty; or the time in microseconds:7, if the deadline has passed. Then nothing has been changed: a late reset
-- would remove permits that were taken after the caller was told that the counts are reset.
--
-- A count keeps its life, which counts the reset, and its expiry. It is deleted if it is foreign or a concurrency
-- limit, or if Redis refuses to write because it has no free memory: then its life ends, which other instances may take
-- for a loss of data. After a DEL, even of a key that does not exist, Redis writes without free memory, too. The counts
-- come before the marks, so that these are written. If a count and its mark are on different nodes for a moment, one
-- call has only counts and the other only marks.

local DEADLINE, MARK = 7, 7
local WITH_LIFE, EXPIRY, PERIOD = 5, 6, 12 -- the bytes up to the life, and those at the end of the value or of its head

-- Of an empty value.
local SIZES = {sgC = COUNTER_LENGTH, sgB = SHORT_BUCKET, sgb = SHORT_BUCKET, sgL = HEAD, sgQ = QUOTA_LENGTH,
  sgN = BAN_HEAD}

-- Returns a value without permits in the place of this one, or nil if there is none. It keeps the expiry or, of a
-- counter, the start of the window, and of a quota its period.
local function emptied(bytes)
  local size = SIZES[string.sub(bytes, 1, 3)]
  if size and #bytes >= size then
    local life = unpackFrom('<I2', bytes, WITH_LIFE - 1)
    local number, kept = (life + 1) % RESETS, string.sub(bytes, 3, 3) == 'Q' and PERIOD or EXPIRY
    return string.sub(bytes, 1, WITH_LIFE - 2) .. pack('<I2', life - life % RESETS + number)
      .. string.rep('\0', size - WITH_LIFE - kept) .. string.sub(bytes, size - kept + 1, size)
  end
end

if isLate((unpackFrom('<I7', ARGV[1]))) then
  return pack('<I7', micros)
end
local marks = (#ARGV[1] - DEADLINE) / MARK
local counts = #KEYS - marks
for i = 1, counts do
  local empty = emptied(firstBytes(KEYS[i]) or '')
  local written = empty and redis.pcall('SET', KEYS[i], empty, 'KEEPTTL')
  if not written or written.err then
    call('DEL', KEYS[i])
  end
end
for i = 1, marks do
  local lasts = unpackFrom('<I7', ARGV[1], DEADLINE + (i - 1) * MARK + 1)
  call('SET', KEYS[counts + i], string.format('%.0f', micros), 'PX', lasts)
end
return ''
