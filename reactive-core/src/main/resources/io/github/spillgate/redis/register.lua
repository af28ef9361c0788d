-- register.lua: registers an instance of a limiter for a while, and counts the instances.
--
-- KEYS[1]   the key of the registrations: 'sgI', then for each instance id:16 until:6, its last millisecond
-- ARGV[1]   life:6   for how many milliseconds the instance is registered; 0 removes it
--           id:16
--
-- Reply: the number of instances as text, at most MOST; 0 if there are none, or if the value was not written by this
-- library.

local MAGIC, ID, INSTANCE, MOST = 'sgI', 16, 22, 1000
local LONGEST = 60000
local life = unpackFrom('<I6', ARGV[1])
local id = string.sub(ARGV[1], 7, 6 + ID)

local bytes = redis.pcall('GETRANGE', KEYS[1], '0', tostring(#MAGIC + MOST * INSTANCE - 1))
if type(bytes) == 'table' or (bytes ~= '' and string.sub(bytes, 1, #MAGIC) ~= MAGIC) then
  return '0'
end

local others, latest = {}, now + life
for at = #MAGIC + 1, #bytes - INSTANCE + 1, INSTANCE do
  local other = string.sub(bytes, at, at + INSTANCE - 1)
  local untilThen = unpackFrom('<I6', other, ID + 1)
  -- One that lasts longer is from before the clock was set back.
  if string.sub(other, 1, ID) ~= id and untilThen > now and untilThen <= now + LONGEST then
    others[#others + 1] = other
    latest = max(latest, untilThen)
  end
end
if life > 0 and #others < MOST then
  others[#others + 1] = id .. pack('<I6', now + life)
end
if #others == 0 then
  if bytes ~= '' then
    call('DEL', KEYS[1])
  end
else
  call('SET', KEYS[1], MAGIC .. table.concat(others), 'PX', latest - now)
end
return tostring(#others)
