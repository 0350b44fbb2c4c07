-- Values: numbers and texts in a message's bytes, what they mean, and what is wrong with them.
--
-- A reader `r` is what the bytes are read from: `s` their text, `view` the TvbRange with the same bytes, `n` where they
-- end. Positions count from 0. What cannot be read ends in `fail`, caught where a message or a batch begins.

-- Problems ------------------------------------------------------------------------------------------------------------

local Problem = {}

-- Ends the reading of what cannot be read on.
local function fail(r, position, text)
  error(setmetatable({position = position, text = text, cut = r.cut and position >= r.n - 16}, Problem), 0)
end

-- Runs `read`; a problem of the bytes is returned, any other error is passed on.
local function try(read, ...)
  local done, result = pcall(read, ...)
  if done then return result end
  if getmetatable(result) ~= Problem then error(result, 0) end
  return nil, result
end

-- How many items the packet at hand has in its tree.
local spent = 0

-- Whether this many more items may be shown.
local function affords(count)
  if spent + count > MOST_SHOWN then return false end
  spent = spent + count
  return true
end

local function too_much(tree, what)
  add_expert(tree, expert.too_much, what .. " is not shown: there is too much in this packet")
end

local function need(r, position, size, what)
  if position + size > r.n then
    fail(r, position, ("%d bytes of %s are expected, %d are left"):format(size, what, math.max(0, r.n - position)))
  end
end

-- A range of the bytes; of none where they end, the last byte's place.
local function span(r, position, size)
  if size == 0 and position >= r.view:len() then position = math.max(0, r.view:len() - 1) end
  return range(r.view, position, size)
end

-- Numbers -------------------------------------------------------------------------------------------------------------

local function uint16(s, at)
  local a, b = byte(s, at + 1, at + 2)
  return a * 256 + b
end

local function int16(s, at)
  local n = uint16(s, at)
  return n >= 32768 and n - 65536 or n
end

local function uint32(s, at)
  local a, b, c, d = byte(s, at + 1, at + 4)
  return a * 16777216 + b * 65536 + c * 256 + d
end

local function int32(s, at)
  local n = uint32(s, at)
  return n >= 2147483648 and n - 4294967296 or n
end

local function int64(s, at)
  return Int64.new(uint32(s, at + 4), uint32(s, at))
end

-- An int64 as people write it.
local function int64_text(s, at)
  local high = int32(s, at)
  if high == 0 then return ("%d"):format(uint32(s, at + 4)) end
  return tostring(int64(s, at))
end

-- The second that was written last, and how.
local last_second, last_date

-- Milliseconds of an int64 that is a timestamp, as text; nil where no calendar reaches.
local function date(s, at)
  local ms = uint32(s, at) * 4294967296 + uint32(s, at + 4)
  if ms <= 0 or ms >= 253402300800000 then return nil end
  local seconds = floor(ms / 1000)
  if seconds ~= last_second then
    last_second, last_date = seconds, os.date("!%Y-%m-%d %H:%M:%S", seconds)
  end
  return ("%s.%03d UTC"):format(last_date, floor(ms - seconds * 1000))
end

-- An unsigned varint of 32 bits, as Kafka reads it: 5 bytes at most, what is above 32 bits falls away.
local function uvarint(r, position, what)
  local s, n, factor = r.s, 0, 1
  for i = 1, 5 do
    if position >= r.n then need(r, position, 1, what) end
    local b = byte(s, position + 1)
    position = position + 1
    if b < 128 then
      n = n + b * factor
      if i == 5 then
        n = n % 4294967296
        if n >= 2147483648 then n = n - 4294967296 end
      end
      return n, position
    end
    n = n + (b - 128) * factor
    factor = factor * 128
  end
  fail(r, position - 5, what .. " is an unsigned varint of more than 5 bytes")
end

-- Texts ---------------------------------------------------------------------------------------------------------------

local DIGITS = {}
for digit in ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"):gmatch(".") do
  DIGITS[#DIGITS + 1] = digit
end

-- A uuid as Kafka writes it: base64url without padding (org.apache.kafka.common.Uuid).
local function write_uuid(bytes)
  local out = {}
  for i = 1, 16, 3 do
    local a, b, c = byte(bytes, i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    out[#out + 1] = DIGITS[floor(n / 262144) + 1] .. DIGITS[floor(n / 4096) % 64 + 1]
    if b then out[#out + 1] = DIGITS[floor(n / 64) % 64 + 1] .. DIGITS[n % 64 + 1] end
  end
  return table.concat(out)
end

-- Those written so far: a capture has the same few again and again.
local uuids, uuid_count = {}, 0

local function uuid(s, at)
  local bytes = sub(s, at + 1, at + 16)
  local text = uuids[bytes]
  if not text then
    if uuid_count == 1000 then uuids, uuid_count = {}, 0 end
    text, uuid_count = write_uuid(bytes), uuid_count + 1
    uuids[bytes] = text
  end
  return text
end

-- The text of bytes that people can read, for a label; nil of any others.
local function readable(s)
  if #s > 200 then s = sub(s, 1, 200) end
  if s == "" or find(s, "[^\32-\126]") then return nil end
  return s
end

-- A string. One with NUL in it, at which Wireshark would end, is shown with what is not printable as \xNN.
local function show_text(field, r, position, n, tree)
  local bytes = sub(r.s, position + 1, position + n)
  if not find(bytes, "[%z\128-\255]") then return add(tree, field, range(r.view, position, n)) end
  if find(bytes, "%z") then
    return add(tree, field, range(r.view, position, n), (bytes:gsub("[^\32-\126]", function(c) return ("\\x%02x"):format(byte(c)) end)))
  end
  return (add_text(tree, field, range(r.view, position, n), ENC_UTF_8))
end

-- What fields mean ----------------------------------------------------------------------------------------------------

-- What topic ids are called: learned from responses that have both, and the one that Kafka itself fixes.
local CLUSTER_METADATA_ID = ("\0"):rep(15) .. "\1"
local topic_names = {[CLUSTER_METADATA_ID] = "__cluster_metadata"}

-- Of each meaning: what is done when a field of it is read, whether anything is shown or not (`item` is nil then).
local meanings = {
  error = function(r, position, _, item)
    local code = int16(r.s, position)
    if code ~= 0 then
      local name = numbers.error[code] or ("UNKNOWN_" .. code)
      r.errors = r.errors or {}
      r.errors[#r.errors + 1] = name
      if item then add_expert(item, expert.error, name) end
    end
  end,
  topic = function(r, position, size)
    r.topic = sub(r.s, position + 1, position + size)
    r.named = r.topic
  end,
  protocol_type = function(r, position, size)
    r.protocol_type = sub(r.s, position + 1, position + size)
  end,
  assignor = function(r, position, size)
    r.assignor = sub(r.s, position + 1, position + size)
  end,
  topic_id = function(r, position)
    local id = sub(r.s, position + 1, position + 16)
    if r.named then
      topic_names[id] = r.named
    else
      r.topic = topic_names[id]
    end
  end,
  config_name = function(r, position, size)
    local name = sub(r.s, position + 1, position + size):lower()
    r.hides = false
    for _, word in ipairs(secret_words) do
      if find(name, word, 1, true) then r.hides = true end
    end
  end,
}

-- The same of those that matter only to what is shown.
local shown_meanings = {
  timestamp = function(r, position, _, item)
    local text = date(r.s, position)
    if text then append_text(item, " (" .. text .. ")") end
  end,
}
