-- log.lua: logs. LogCount.java does the same. The figures of a usage are the used permits, the time when the cost fits,
-- and the time when nothing is used any more.
--
-- A log has one entry for each slot with hits. The newest entry is stored in the head, as 'newest' (its slot) and
-- 'count': most hits of a busy key fall into the current slot, and the log of an idle key fits into the smallest
-- string of Redis. The older entries follow in order of time; entry n is in the slot base + offset. Entries before
-- 'first' have expired, entries from 'last' on are unused, and there is space for 'room' entries. 'oldest' is the
-- offset of the entry 'first', if there is one. 'used' is the sum of all counts that had not expired at the last write.
-- Counts are permits; a log does not know how many requests took them.
--
-- A script changes a log in place and reads little of it, because Lua needs about 1 ns for each byte of a string.
-- Mostly the head is enough. If a log has no space for another entry, the script rewrites it without the expired
-- entries and with some unused ones. Its expiry follows the newest hit. It is written only if the stored one is too
-- early, and then somewhat later than necessary, so that most hits do not write it. After a refund of the newest hit it
-- is later still, but less than four windows after the newest hit expires, unless the clock was set back: then it is
-- reduced to that.
--
-- A log that is shorter than its head says is torn. Checking the length would be another call, so most readers notice a
-- missing entry when they need it, and raise an error with the key.
--
-- Hits may be in the future by the lease time, because leased permits are charged at the end of their lease. Expired
-- entries are removed at the next write. A denial or a peek writes only if there are more than MOST_LEFT of them, so
-- that later scripts do not visit many of them again.

kinds[LOG] = function()
  local MOST_PERMITS = 4294967295 -- the sum of all entries fits into four bytes

  -- Returns the last slot in which permits can be charged now, which is that of leased permits.
  local function lastSlot(limit)
    return floor((now + leaseTimeOf(limit)) / limit.resolution)
  end

  -- Reads the whole string of a log, so that it is rewritten.
  local function loadWhole(log)
    if not log.whole then
      local length = HEAD + log.last * ENTRY
      log.bytes, log.from, log.whole = call('GETRANGE', log.key, 0, length - 1), 0, true
      if #log.bytes < length then
        error({torn = log.key})
      end
    end
  end

  -- Returns the slot and the count of the n-th entry behind the head.
  local function entry(log, n)
    local at = n - log.from
    if log.whole then
      at = HEAD + n * ENTRY
    else
      if at < 0 or (at + 1) * ENTRY > #log.bytes then
        -- Reads a piece that starts with this entry or, for a loop that runs backwards, ends with it. The pieces of one
        -- loop become longer.
        local isNext = log.piece and (at == -1 or at == log.piece)
        log.piece = isNext and min(2 * log.piece, LONGEST_PIECE) or FIRST_PIECE
        log.from = at == -1 and max(0, n + 1 - log.piece) or n
        log.bytes = call('GETRANGE', log.key, HEAD + log.from * ENTRY, HEAD + (log.from + log.piece) * ENTRY - 1)
        at = n - log.from
        if (at + 1) * ENTRY > #log.bytes then
          error({torn = log.key})
        end
      end
      at = at * ENTRY
    end
    local offset, count = unpackFrom('<I5I4', log.bytes, at + 1)
    return log.base + offset, count
  end

  local function putEntry(log, n, slot, count)
    local at = HEAD + n * ENTRY
    local bytes = pack('<I5I4', slot - log.base, count)
    if log.whole then
      log.bytes = string.sub(log.bytes, 1, at) .. bytes .. string.sub(log.bytes, at + ENTRY + 1)
    else
      call('SETRANGE', log.key, at, bytes)
      log.bytes, log.from = '', 0
    end
  end

  -- Returns the slot of the oldest entry behind the head. There must be one.
  local function oldestOf(log)
    if not log.oldest then
      log.oldest = entry(log, log.first)
    end
    return log.oldest
  end

  -- Returns the log without its expired entries.
  local function read(key, limit, checksLength)
    local bytes = firstBytes(key)
    if bytes == '' then
      return {key = key, limit = limit, life = 0, bytes = '', from = 0, used = 0, newest = 0, count = 0,
        base = 0, first = 0, last = 0, room = 0, expires = 0, whole = true}
    end
    if not bytes or #bytes < HEAD then
      return nil
    end
    local written, life, used, newest, count, first, last, oldest, base, room, expires =
      unpackFrom('<I3I2I6I6I4I2I2I5I6I2I6', bytes)
    if written ~= A_LOG or first > last or last > room or (room == 0) ~= (#bytes == HEAD) or count > used then
      return nil
    end
    local window, resolution = limit.window, limit.resolution
    local gone = (newest + 1) * resolution + window
    if used > 0 and (expires < gone or expires > gone + 4 * window) then
      return nil
    end
    if checksLength and call('STRLEN', key) ~= HEAD + room * ENTRY then
      return nil
    end

    local log = {key = key, limit = limit, life = life, bytes = '', from = 0, used = used, newest = newest,
      count = count, base = base, first = first, last = last, room = room, oldest = base + oldest, expires = expires}
    if used == 0 or gone <= now then
      -- A hit expires when the end of its slot is one window old.
      log.whole, log.used, log.count, log.first, log.last = true, 0, 0, 0, 0
      return log
    end
    local slot = newest
    if newest * resolution > now then
      slot = lastSlot(limit)
    end
    if newest > slot then
      loadWhole(log)
      log.newest, log.oldest = slot, nil
      log.mustWrite = true
      while log.last > log.first do
        local older, some = entry(log, log.last - 1)
        if older < slot then
          break
        end
        log.count = log.count + some
        log.last = log.last - 1
      end
    end
    local stored = log.first
    while log.first < log.last and (oldestOf(log) + 1) * resolution + window <= now do
      local _, some = entry(log, log.first)
      log.used = log.used - some
      log.first = log.first + 1
      log.oldest = nil
    end
    if log.first - stored > MOST_LEFT then
      log.mustWrite = true
    end
    return log
  end

  -- Removes the oldest permits: this number, or all.
  local function trim(log, permits)
    log.used = max(0, log.used - permits)
    while permits > 0 and log.first < log.last do
      local slot, count = entry(log, log.first)
      if count > permits then
        putEntry(log, log.first, slot, count - permits)
        return
      end
      permits = permits - count
      log.first = log.first + 1
      log.oldest = nil
    end
    log.count = max(0, log.count - permits)
  end

  -- Returns the part of the head that most hits change, for a string in which the first entry is the n-th.
  local function frontOf(log, n)
    local oldest = log.first < log.last and oldestOf(log) - log.base or 0
    return pack('<I6I6I4I2I2I5', log.used, log.newest, log.count, n, log.last - log.first + n, oldest)
  end

  -- Returns the part of the head that few hits change.
  local function backOf(log)
    return pack('<I6I2I6', log.base, log.room, log.expires)
  end

  local function write(log)
    local window = log.limit.window
    local gone = (log.newest + 1) * log.limit.resolution + window
    local changesExpiry = log.whole or log.expires < gone
    if changesExpiry then
      log.expires = max(now + 1, min(max(log.expires, gone + floor(window / 16)), gone + 4 * window))
    end
    if log.whole then
      local number = log.last - log.first
      log.room = number == 0 and 0 or number + min(3 + floor(number / 2), MOST_SPARE)
      local entries = string.sub(log.bytes, HEAD + log.first * ENTRY + 1, HEAD + log.last * ENTRY)
      local spare = string.rep('\0', (log.room - number) * ENTRY)
      call('SET', log.key, pack('<I3I2', A_LOG, log.life) .. frontOf(log, 0) .. backOf(log) .. entries .. spare, 'PX',
        log.expires - now)
      return
    end
    call('SETRANGE', log.key, FRONT,
      frontOf(log, log.first) .. ((changesExpiry or log.isRebased) and backOf(log) or ''))
    if changesExpiry then
      call('PEXPIRE', log.key, log.expires - now)
    end
  end

  -- Adds permits in a slot, or in the newest one if that is later because permits are leased.
  local function add(log, cost, slot)
    slot = slot or floor(now / log.limit.resolution)
    if log.used == 0 then
      log.newest, log.count = slot, cost
    elseif log.newest >= slot or log.last - log.first + 1 >= MOST_ENTRIES then
      -- A log is full only if a reconciliation raised it above its permits and it counts denied requests. Then the
      -- newest hits are kept longer.
      log.newest, log.count = max(slot, log.newest), log.count + cost
    else
      if log.last == log.room then
        loadWhole(log)
      end
      if log.bytes == '' and log.whole then
        log.bytes = string.rep('\0', HEAD) -- it was empty when it was read, and gets a second slot
      end
      if log.first == log.last then
        log.base, log.oldest, log.isRebased = log.newest, log.newest, true
      end
      putEntry(log, log.last, log.newest, log.count)
      log.last = log.last + 1
      log.newest, log.count = slot, cost
    end
    log.used = log.used + cost
  end

  local function timesThatFit(log, cost, times)
    local free = log.limit.permits - log.used
    if free < cost then
      return 0
    end
    return cost == 0 and times or min(times, floor(free / cost))
  end

  -- Returns when enough of the oldest hits will have expired. Counts from the oldest hit on or, if that is shorter,
  -- from the newest hit back.
  local function whenFits(log, cost)
    local missing = log.used + cost - log.limit.permits
    if missing <= 0 then
      return now
    end
    local leaving = log.newest
    if missing == 1 and log.first < log.last then
      leaving = oldestOf(log)
    elseif missing <= log.used / 2 then
      for n = log.first, log.last - 1 do
        local slot, count = entry(log, n)
        missing = missing - count
        if missing <= 0 then
          leaving = slot
          break
        end
      end
    else
      local before = log.used - log.count
      local n = log.last
      while before >= missing do
        n = n - 1
        local slot, count = entry(log, n)
        leaving = slot
        before = before - count
      end
    end
    return (leaving + 1) * log.limit.resolution + log.limit.window
  end

  local function usage(log, denied)
    local limit = log.limit
    return log.used, denied and whenFits(log, denied) or now,
      log.used > 0 and (log.newest + 1) * limit.resolution + limit.window or now
  end

  local function lease(log, parts, most)
    local leased = min(most, floor(max(0, log.limit.permits - log.used) / parts))
    if leased > 0 then
      add(log, leased, lastSlot(log.limit))
    end
    return leased
  end

  -- A log keeps the newest hits.
  local function recordDenied(log, cost)
    local most = max(log.used, log.limit.permits)
    add(log, cost)
    if log.used > most then
      trim(log, log.used - most)
    end
    return true
  end

  local function takeBeyond(log, cost, most)
    local taken = min(cost, most - log.used)
    if taken > 0 then
      add(log, taken)
    end
    return taken > 0
  end

  -- Returns the number of the entry of this slot behind the head, if there is one.
  local function find(log, slot)
    local low, high = log.first, log.last - 1
    while low <= high do
      local middle = floor((low + high) / 2)
      if entry(log, middle) < slot then
        low = middle + 1
      else
        high = middle - 1
      end
    end
    if low < log.last and entry(log, low) == slot then
      return low
    end
  end

  -- Removes an entry and moves the later ones up.
  local function removeEntry(log, n)
    local at = HEAD + n * ENTRY
    if log.whole then
      log.bytes = string.sub(log.bytes, 1, at) .. string.sub(log.bytes, at + ENTRY + 1)
    else
      call('SETRANGE', log.key, at, call('GETRANGE', log.key, at + ENTRY, HEAD + log.last * ENTRY - 1))
      log.bytes, log.from, log.piece = '', 0, nil
    end
    log.last, log.oldest = log.last - 1, nil
  end

  local function refund(log, permits, takenAt)
    if log.used == 0 then
      return false
    elseif not takenAt then
      trim(log, permits)
      return true
    end
    local slot = floor(takenAt / log.limit.resolution)
    local n = slot < log.newest and find(log, slot)
    if n then
      local _, count = entry(log, n)
      permits = min(permits, count)
      if permits < count then
        putEntry(log, n, slot, count - permits)
      else
        removeEntry(log, n)
      end
    elseif slot == log.newest then
      permits = min(permits, log.count)
      log.count = log.count - permits
    else
      return false
    end
    log.used = log.used - permits
    if log.count == 0 and log.used > 0 then
      log.newest, log.count = entry(log, log.last - 1)
      log.last = log.last - 1
    end
    return true
  end

  local function reach(limit)
    return limit.window + limit.resolution
  end

  -- Returns the grants that still count, one entry for each slot. Permits count from the end of their range of time.
  local function slotsOf(grants, limit)
    local slots, window, resolution = {}, limit.window, limit.resolution
    for _, some in ipairs(grants) do
      local slot = floor((now - some.to) / resolution)
      if some.permits > 0 and (slot + 1) * resolution + window > now then
        local last = slots[#slots]
        if last and slot <= last.slot then
          last.permits = last.permits + some.permits
        else
          slots[#slots + 1] = {slot = slot, permits = some.permits}
        end
      end
    end
    return slots
  end

  -- Lowers the base, so that grants can be stored that are older than all entries. No grant that counts is older than a
  -- window.
  local function lowerBase(log)
    local base = max(0, floor((now - log.limit.window) / log.limit.resolution))
    local bytes = {string.rep('\0', HEAD)}
    for n = log.first, log.last - 1 do
      local slot, count = entry(log, n)
      bytes[#bytes + 1] = pack('<I5I4', slot - base, count)
    end
    log.bytes, log.base, log.first, log.last, log.oldest = table.concat(bytes), base, 0, log.last - log.first, nil
  end

  -- Drops the oldest permits above what a log can hold. Returns the number of new permits that are kept.
  local function fit(log, slots)
    local room = MOST_PERMITS
    for n = #slots, 1, -1 do
      slots[n].permits = min(slots[n].permits, room)
      room = room - slots[n].permits
    end
    if log.used > room then
      trim(log, log.used - room)
    end
    return MOST_PERMITS - room
  end

  -- Returns the entries merged with the grants, in order of time. Entries between two grants are copied in one piece.
  -- If the log has as many entries as it may have, a grant is added to the next later entry; if there is none, the
  -- newest entry moves to the time of the grant.
  local function merge(entries, base, slots)
    local size, merged, done = #entries / ENTRY, {}, 0
    local free = MOST_ENTRIES - size
    local function at(n)
      local offset, count = unpackFrom('<I5I4', entries, n * ENTRY + 1)
      return base + offset, count
    end
    local slot, count -- of the next entry to write, to which grants may still be added
    local function copyUntil(n)
      if slot then
        merged[#merged + 1] = pack('<I5I4', slot - base, count)
      end
      merged[#merged + 1] = string.sub(entries, done * ENTRY + 1, n * ENTRY)
      slot, count, done = nil, 0, n
    end
    for _, some in ipairs(slots) do
      if slot and some.slot <= slot then
        count = count + some.permits
      elseif some.permits > 0 then
        local low, high = done, size
        while low < high do
          local middle = floor((low + high) / 2)
          if at(middle) < some.slot then
            low = middle + 1
          else
            high = middle
          end
        end
        if low < size and (free <= 0 or at(low) == some.slot) then
          copyUntil(low)
          slot, count = at(low)
          done = low + 1
        elseif free > 0 then
          copyUntil(low)
          slot = some.slot
          free = free - 1
        elseif done < size then
          copyUntil(size - 1)
          slot, count = at(size - 1)
          slot, done = some.slot, size
        else
          slot = some.slot
        end
        count = count + some.permits
      end
    end
    copyUntil(size)
    return table.concat(merged)
  end

  -- Adds the grants.
  local function addSlots(log, slots)
    loadWhole(log)
    local permits = fit(log, slots)
    if log.first == log.last or slots[1].slot < log.base then
      lowerBase(log)
    end
    local entries = string.sub(log.bytes, HEAD + log.first * ENTRY + 1, HEAD + log.last * ENTRY)
    if log.used > 0 then
      entries = entries .. pack('<I5I4', log.newest - log.base, log.count)
    end
    entries = merge(entries, log.base, slots)
    local offset, count = unpackFrom('<I5I4', entries, #entries - ENTRY + 1)
    log.used, log.newest, log.count = log.used + permits, log.base + offset, count
    log.bytes = string.rep('\0', HEAD) .. string.sub(entries, 1, -ENTRY - 1)
    log.first, log.last, log.oldest = 0, #entries / ENTRY - 1, nil
  end

  local function charge(log, grants)
    local slots = slotsOf(grants, log.limit)
    if #slots > 0 then
      addSlots(log, slots)
      return (slots[#slots].slot + 1) * log.limit.resolution + log.limit.window - now
    end
  end

  local function sum(slots)
    local permits = 0
    for _, some in ipairs(slots) do
      permits = permits + some.permits
    end
    return permits
  end

  -- Returns the permits that were restored before, the youngest that may have been, and all others, each by slots.
  local function split(log, earlier)
    local most, last, inLast = earlier[1], earlier[2], earlier[3]
    local entries, tooMany = {}, -most
    loadWhole(log)
    for n = log.first, log.last - (log.used > 0 and 0 or 1) do
      local slot, permits = log.newest, log.count
      if n < log.last then
        slot, permits = entry(log, n)
      end
      local restored = slot < last and permits or slot == last and min(permits, inLast) or 0
      tooMany = tooMany + restored
      entries[#entries + 1] = {slot = slot, permits = permits, restored = restored}
    end
    local had, others = {}, {}
    for _, one in ipairs(entries) do
      local less = min(max(0, tooMany), one.restored)
      tooMany = tooMany - less
      local restored = one.restored - less
      if restored > 0 then
        had[#had + 1] = {slot = one.slot, permits = restored}
      end
      if restored < one.permits then
        others[#others + 1] = {slot = one.slot, permits = one.permits - restored}
      end
    end
    return had, others
  end

  -- Returns the fewest permits that are, in each slot and later ones, at least as many as in either, and whether these
  -- are more than before.
  local function raise(had, known)
    local raised, isMore, left, knownLeft, i, j = {}, false, sum(had), sum(known), 1, 1
    while had[i] or known[j] do
      local before = max(left, knownLeft)
      isMore = isMore or knownLeft > left
      local slot = min((had[i] or known[j]).slot, (known[j] or had[i]).slot)
      if had[i] and had[i].slot == slot then
        left = left - had[i].permits
        i = i + 1
      end
      if known[j] and known[j].slot == slot then
        knownLeft = knownLeft - known[j].permits
        j = j + 1
      end
      local permits = before - max(left, knownLeft)
      if permits > 0 then
        raised[#raised + 1] = {slot = slot, permits = permits}
      end
    end
    return raised, isMore
  end

  local function replace(log, slots)
    local bytes, newest = {string.rep('\0', HEAD)}, slots[#slots]
    for n = 1, #slots - 1 do
      bytes[#bytes + 1] = pack('<I5I4', slots[n].slot - log.base, slots[n].permits)
    end
    log.used, log.newest, log.count = sum(slots), newest and newest.slot or log.newest, newest and newest.permits or 0
    log.bytes, log.first, log.last, log.oldest = table.concat(bytes), 0, max(0, #slots - 1), nil
  end

  -- The n-th youngest restored permit is as young as the n-th youngest that any instance knew. The numbers are that of
  -- restored permits, the slot of the latest of them, and how many were restored into that slot: it may be that in
  -- which others were granted since.
  local function restore(log, grants, earlier)
    earlier = earlier or {0, 0, 0}
    local known = slotsOf(grants, log.limit)
    local had, others = split(log, earlier)
    local all, isMore = raise(had, known)
    if not isMore then
      return nil
    end
    local permits, last, latest = sum(all), max(earlier[2], known[#known].slot), all[#all]
    local inLast = latest.slot == last and latest.permits or 0
    replace(log, others)
    addSlots(log, all)
    return permits, last, inLast
  end

  -- The slot of a take is the present one: a log has no ids.
  return {read = read, write = write, usage = usage, timesThatFit = timesThatFit, take = add, lease = lease,
    recordDenied = recordDenied, takeBeyond = takeBeyond, refund = refund, charge = charge, restore = restore,
    reach = reach}
end
