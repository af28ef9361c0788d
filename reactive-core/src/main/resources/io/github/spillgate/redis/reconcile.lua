-- reconcile.lua: charges permits that were granted elsewhere, and restores permits that this server has lost. Each
-- reconciliation is independent of the others and is charged once.
--
-- KEYS[4i-3]   the key of the count of the i-th reconciliation
-- KEYS[4i-2]   the key of the mark of its source, which holds the number of its last charge on this count, and the life
--              in which that was made
-- KEYS[4i-1]   the key of the reset mark of the count
-- KEYS[4i]     the key of the mark of what was restored in the count
-- ARGV[1]      the limits, see wire.lua, and then, to the end, for each reconciliation
--                limit:2      the position of its limit; the charge may exceed it
--                number:7     the number of the reconciliation: those of one source on one count ascend
--                grants:4, then for each, the oldest first
--                  from:7     the highest age of its permits in milliseconds
--                  to:7       the lowest age of its permits in milliseconds
--                  permits:7
--                lost:1, then for each lost life of the count
--                  life:2
--                  since:7    the time of the last reply with these permits in microseconds: if the count was reset
--                             since then, they are not restored
--                  grants:4, as above, of the permits in use
--
-- Reply: the time, and the usage of each count, see wire.lua. 'granted' is 1 if the reconciliation has been charged
-- or restored now, and 0 if it was charged before, no longer counts, or the value is foreign.
--
-- The mark is set before the charge, and lives as long as the charge can count, but at most an hour: a reconciliation
-- that is sent again even later is charged twice, towards denying. If the count has lost its data since, it is charged
-- again. A foreign value is a status and not an error, because it must not prevent the other charges. Those that have
-- been made remain if a later one fails.

local LONGEST_MARK = 3600000 -- in milliseconds

-- Returns the life without its number of resets.
local function lifeOf(count)
  return floor(count.life / RESETS)
end

-- Returns the mark of what was restored into this life: for each lost life, three numbers that depend on the kind.
local function readRestored(key, life)
  local mark, restored = redis.pcall('GETRANGE', key, '0', '-1'), {}
  if type(mark) == 'string' and tonumber(string.match(mark, '^%d+') or '') == life then
    for from, first, second, third in string.gmatch(mark, ' (%d+) (%d+) (%d+) (%d+)') do
      restored[#restored + 1] = {life = tonumber(from), tonumber(first), tonumber(second), tonumber(third)}
    end
  end
  return restored
end

-- Returns when a count was reset, in microseconds; -1 if that is not known.
local function resetAt(mark)
  local reset = redis.pcall('GETRANGE', mark, '0', '-1')
  return type(reset) == 'string' and tonumber(reset) or -1
end

-- Restores permits of a lost life, as far as no other instance has restored them. All permits in the count were granted
-- since, and count in addition. Returns whether it has restored any.
local function restore(count, resetMark, key, life, since, grants)
  if floor(life / RESETS) == lifeOf(count) or resetAt(resetMark) >= since then
    return false
  end
  local limit, marks, earlier = count.limit, readRestored(key, lifeOf(count)), nil
  for n, one in ipairs(marks) do
    if floor(one.life / RESETS) == floor(life / RESETS) then
      earlier = table.remove(marks, n)
      break
    end
  end
  local first, second, third = limit.kind.restore(count, grants, earlier)
  if not first then
    return false
  end
  change(count)
  local mark = {lifeOf(count), string.format('%.0f %.0f %.0f %.0f', life, first, second, third)}
  local other = marks[1]
  if other then
    mark[3] = string.format('%.0f %.0f %.0f %.0f', other.life, other[1], other[2], other[3])
  end
  call('SET', key, table.concat(mark, ' '), 'PX', limit.kind.reach(limit, count))
  return true
end

-- Returns whether a ban was reset after it had begun. If the clock was set back since the reset, that is not known.
local function isPardoned(count, grants, resetMark)
  local reset = count.limit.kind.isBan and floor(resetAt(resetMark) / 1000)
  return reset and reset <= now and now - grants[#grants].to < reset
end

-- Charges the grants, unless they were charged before or no longer count. Returns whether they have been charged now.
local function reconcile(count, mark, number, grants, resetMark)
  if isPardoned(count, grants, resetMark) then
    return false
  end
  local before = redis.pcall('GETRANGE', mark, '0', '-1')
  local last, life = string.match(type(before) == 'string' and before or '', '^(%d+) (%d+)$')
  if tonumber(life) == lifeOf(count) and number <= tonumber(last) then
    return false
  end
  local lasts = count.limit.kind.charge(count, grants)
  if not lasts then
    return false
  end
  change(count)
  call('SET', mark, string.format('%.0f %d', number, lifeOf(count)), 'PX', min(lasts, LONGEST_MARK))
  return true
end

local limits, at = readLimits()

local function readGrants()
  local grants, number = {}, nil
  number, at = unpackFrom('<I4', argument, at)
  for h = 1, number do
    local from, to, permits
    from, to, permits, at = unpackFrom('<I7I7I7', argument, at)
    grants[h] = {from = from, to = to, permits = permits}
  end
  return grants
end

local reply = {pack('<I7', micros)}
for i = 1, #KEYS / 4 do
  local l, number, grants, lost
  l, number, at = unpackFrom('<I2I7', argument, at)
  grants = readGrants()
  lost, at = unpackFrom('<I1', argument, at)
  local kind = limits[l].kind
  local count = kind.read(KEYS[4 * i - 3], limits[l], true)
  local isAny = count and #grants > 0 and reconcile(count, KEYS[4 * i - 2], number, grants, KEYS[4 * i - 1])
  for _ = 1, lost do
    local life, since, some
    life, since, at = unpackFrom('<I2I7', argument, at)
    some = readGrants()
    if count and #some > 0 then
      isAny = restore(count, KEYS[4 * i - 1], KEYS[4 * i], life, since, some) or isAny
    end
  end
  if count and count.mustWrite then
    kind.write(count)
  end
  reply[i + 1] = count and usageOf(count, isAny and 1 or 0, 0) or usageOf(nil, 0, FOREIGN)
end
return table.concat(reply)
