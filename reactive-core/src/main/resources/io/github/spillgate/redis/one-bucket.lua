-- one-bucket.lua: like one-counter.lua, for a token bucket.

if one and one.isBucket then
  local isDone, reply = pcall(function()
    local bucket = readBucket(KEYS[1], one)
    local units = one.cost * one.window
    if bucket and levelAt(bucket, now) <= one.capacity - units then
      addToBucket(bucket, units, now)
      -- Before the write, so that nothing can fail after it.
      local granted = pack(REPLY_OF_ONE, micros, 1, 0, bucket.level, 0, 0)
      writeBucket(bucket, 0)
      return granted
    end
  end)
  if isDone and reply then
    return reply
  end
end
