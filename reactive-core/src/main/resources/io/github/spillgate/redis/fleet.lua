-- fleet.lua: registers a process for a while, counts the instances of its limiters, and keeps what is published.
--
-- KEYS[1]   the processes: 'sgI' overflow:6, then for each list of limiters hashes:2 instances:2, a hash:4 of each
--           name, and for each process with that list id:16 until:6, its last millisecond. An empty list is for all
--           limiters. Until the overflow, there was a process too many
-- KEYS[2]   what is published: 'sgP' version:7, then for each name version:7 until:6 name:1 content:2, and the name and
--           the content, of these lengths
-- ARGV[1]   life:6       for how many milliseconds the process is registered; 0 removes it
--           id:16
--           known:7      the version that the process knows
--           names:2 lost:2
--           then a hash:4 of each name of its limiters, values to restore, and perhaps one to publish, as in KEYS[2].
--           The version of that is the one that must be there; 0 for none
--
-- Reply: the time in microseconds:7, the outcome:1 for the value to publish, version:7, and 1, or 0 without numbers if
-- the value of the processes was not written by this library:1; then the number:2 of instances for each name; then, if
-- the version is not the known one, or there was a value to publish, all values, as in KEYS[2].

local ID, INSTANCE, HASH, LONGEST = 16, 22, 4, 60000
local MOST_INSTANCES, TOO_MANY, MOST_NAMES, MOST_HASHES = 1000, 10000, 1000, 4000
local MOST_BYTES, FLEET_HEAD, VALUE_HEAD = 65536, 10, 16
local NONE, PUBLISHED, CONFLICT, REFUSED = 0, 1, 2, 3
local request = ARGV[1]
local life, known = unpackFrom('<I6', request), unpackFrom('<I7', request, 23)
local id = string.sub(request, 7, 6 + ID)
local names, lost, at = unpackFrom('<I2I2', request, 30)

-- Returns the bytes of a value of this kind, '' if there is none, and nil if it was not written by this library.
local function bytesOf(key, kind, head)
  local bytes = redis.pcall('GETRANGE', key, '0', '-1')
  if bytes == '' or (type(bytes) ~= 'table' and #bytes >= head and string.sub(bytes, 1, 3) == kind) then
    return bytes
  end
end

-- Registers the process. Returns the number of instances for each name, or nil if there is a foreign value.
local function register(hashes)
  local bytes = bytesOf(KEYS[1], 'sgI', 9)
  if not bytes then
    return nil
  end
  local function isPresent(untilThen)
    return untilThen > now and untilThen <= now + LONGEST
  end
  local lists, groups, instances, hashed, latest = {}, {}, 0, 0, 0
  local overflow = bytes ~= '' and unpackFrom('<I6', bytes, 4) or 0
  overflow = isPresent(overflow) and overflow or 0
  local place = 10
  while place + 3 <= #bytes do
    local length, number = unpackFrom('<I2I2', bytes, place)
    local first = place + 4 + length * HASH
    local list, group = string.sub(bytes, place + 4, first - 1), {}
    for one = first, first + (number - 1) * INSTANCE, INSTANCE do
      local untilThen = unpackFrom('<I6', bytes, one + ID)
      if string.sub(bytes, one, one + ID - 1) ~= id and isPresent(untilThen) then
        group[#group + 1] = string.sub(bytes, one, one + INSTANCE - 1)
        latest = max(latest, untilThen)
      end
    end
    if #group > 0 then
      lists[#lists + 1], groups[list] = list, group
      instances = instances + #group
      hashed = hashed + (list ~= hashes and #list or 0)
    end
    place = first + number * INSTANCE
  end
  if life > 0 then
    latest = max(latest, now + life)
    if instances < MOST_INSTANCES then
      local own = (#hashes > MOST_NAMES * HASH or hashed + #hashes > MOST_HASHES * HASH) and '' or hashes
      if not groups[own] then
        lists[#lists + 1], groups[own] = own, {}
      end
      table.insert(groups[own], id .. pack('<I6', now + life))
    else
      overflow = now + life
    end
  end
  if #lists == 0 then
    if bytes ~= '' then
      call('DEL', KEYS[1])
    end
  else
    local parts = {'sgI' .. pack('<I6', overflow)}
    for _, list in ipairs(lists) do
      parts[#parts + 1] = pack('<I2I2', #list / HASH, #groups[list]) .. list .. table.concat(groups[list])
    end
    call('SET', KEYS[1], table.concat(parts), 'PX', max(latest, overflow) - now)
  end
  local all, same, others = #(groups[''] or {}), #(groups[hashes] or {}), {}
  for _, list in ipairs(lists) do
    if list ~= '' and list ~= hashes then
      for one = 1, #list, HASH do
        local hash = string.sub(list, one, one + HASH - 1)
        others[hash] = (others[hash] or 0) + #groups[list]
      end
    end
  end
  local numbers = {}
  for one = 1, #hashes, HASH do
    local number = all + same + (others[string.sub(hashes, one, one + HASH - 1)] or 0)
    numbers[#numbers + 1] = pack('<I2', overflow > 0 and TOO_MANY or number)
  end
  return table.concat(numbers)
end

-- Reads a value. Returns it, and the position behind it.
local function valueAt(bytes, place)
  local version, untilThen, name, content = unpackFrom('<I7I6I1I2', bytes, place)
  local text = place + VALUE_HEAD
  local behind = text + name + content
  return {name = string.sub(bytes, text, text + name - 1), version = version, untilThen = untilThen,
    content = string.sub(bytes, text + name, behind - 1)}, behind
end

local function written(value)
  return pack('<I7I6I1I2', value.version, value.untilThen, #value.name, #value.content) .. value.name .. value.content
end

-- Restores and publishes. Returns the outcome, the version, and all values.
local function publish()
  local bytes = bytesOf(KEYS[2], 'sgP', FLEET_HEAD)
  local version, order, values, size, isChanged = 0, {}, {}, FLEET_HEAD, false
  local function put(value)
    local before = values[value.name]
    value.untilThen = before and max(before.untilThen, value.untilThen) or value.untilThen
    local larger = size + #written(value) - (before and #written(before) or 0)
    if not bytes or larger > MOST_BYTES then
      return false
    end
    if not before then
      order[#order + 1] = value.name
    end
    values[value.name], size, isChanged = value, larger, true
    return true
  end
  if bytes and bytes ~= '' then
    version = unpackFrom('<I7', bytes, 4)
    local place = FLEET_HEAD + 1
    while place + VALUE_HEAD <= #bytes + 1 do
      local value
      value, place = valueAt(bytes, place)
      if value.untilThen > now then
        order[#order + 1], values[value.name] = value.name, value
        size = size + #written(value)
      end
    end
  end
  local place = at + names * HASH
  for _ = 1, lost do
    local value
    value, place = valueAt(request, place)
    local before = values[value.name]
    if value.untilThen > now and (not before or before.version < value.version) then
      put(value)
    end
  end
  local highest = version
  for _, value in pairs(values) do
    highest = max(highest, value.version)
  end
  local outcome, next = NONE, max(highest + 1, micros)
  if place <= #request then
    local value = valueAt(request, place)
    local before = values[value.name]
    if (before and before.version or 0) ~= value.version then
      outcome = CONFLICT
    else
      value.version = next
      outcome = put(value) and PUBLISHED or REFUSED
    end
  end
  local parts, latest = {}, 0
  for i, name in ipairs(order) do
    parts[i] = written(values[name])
    latest = max(latest, values[name].untilThen)
  end
  local all = table.concat(parts)
  if isChanged then
    version = next
    call('SET', KEYS[2], 'sgP' .. pack('<I7', version) .. all, 'PX', max(latest - now, 1))
  end
  return outcome, version, (version ~= known or outcome ~= NONE) and all or ''
end

local numbers = register(string.sub(request, at, at + names * HASH - 1))
local outcome, version, all = publish()
return pack('<I7I1I7I1', micros, outcome, version, numbers and 1 or 0) .. (numbers or '') .. all
