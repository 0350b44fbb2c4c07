-- Values: a message's bytes -> its fields in the tree.
--
-- A reader `r` is what the bytes are read from: `s` their text, `view` the TvbRange with the same bytes, `n` where they
-- end, `layouts` of the message. Positions count from 0. A `tree` of nil reads without showing anything. What cannot be
-- read ends in `fail`, caught where a message or a batch begins.

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

-- Whether so many more items may be shown.
local function affords(count)
  if spent + count > MOST_SHOWN then return false end
  spent = spent + count
  return true
end

local function too_much(tree, what)
  tree:add_proto_expert_info(expert.too_much, what .. " is not shown: there is too much in this packet")
end

-- Numbers -------------------------------------------------------------------------------------------------------------

local function need(r, position, size, what)
  if position + size > r.n then
    fail(r, position, ("%d bytes of %s are expected, %d are left"):format(size, what, math.max(0, r.n - position)))
  end
end

-- A range of the bytes; of none where they end, the last byte's place.
local function span(r, position, size)
  if size == 0 and position >= r.view:len() then position = math.max(0, r.view:len() - 1) end
  return r.view(position, size)
end

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

-- Milliseconds of an int64 that is a timestamp, as text; nil where no calendar reaches.
local function date(s, at)
  local ms = uint32(s, at) * 4294967296 + uint32(s, at + 4)
  if ms <= 0 or ms >= 253402300800000 then return nil end
  local seconds = floor(ms / 1000)
  return os.date("!%Y-%m-%d %H:%M:%S", seconds) .. (".%03d UTC"):format(floor(ms - seconds * 1000))
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

local BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

-- A uuid as Kafka writes it: base64url without padding (org.apache.kafka.common.Uuid).
local function uuid(s, at)
  local out = {}
  for i = at + 1, at + 16, 3 do
    local a, b, c = byte(s, i, math.min(i + 2, at + 16))
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    for j, factor in ipairs({262144, 4096, 64, 1}) do
      if j <= (b and 4 or 2) then
        local digit = floor(n / factor) % 64
        out[#out + 1] = BASE64:sub(digit + 1, digit + 1)
      end
    end
  end
  return table.concat(out)
end

-- The text of bytes that people can read, for a label; nil of any others.
local function readable(s)
  if #s > 200 then s = s:sub(1, 200) end
  if s == "" or s:find("[^\32-\126]") then return nil end
  return s
end

-- What fields mean ----------------------------------------------------------------------------------------------------

-- What topic ids are called: learned from responses that have both, and the one that Kafka itself fixes.
local CLUSTER_METADATA_ID = ("\0"):rep(15) .. "\1"
local topic_names = {[CLUSTER_METADATA_ID] = "__cluster_metadata"}

-- Of each meaning: what is done when a field of it is read. `item` is nil where nothing is shown.
local meanings = {
  error = function(r, position, _, item)
    local code = int16(r.s, position)
    if code ~= 0 then
      local name = numbers.error[code] or ("UNKNOWN_" .. code)
      r.errors[#r.errors + 1] = name
      if item then item:add_proto_expert_info(expert.error, name) end
    end
  end,
  timestamp = function(r, position, _, item)
    local text = item and date(r.s, position)
    if text then item:append_text(" (" .. text .. ")") end
  end,
  topic = function(r, position, size)
    r.topic = r.s:sub(position + 1, position + size)
    r.named = r.topic
  end,
  topic_id = function(r, position)
    local id = r.s:sub(position + 1, position + 16)
    if r.named then
      topic_names[id] = r.named
    else
      r.topic = topic_names[id]
    end
  end,
  config_name = function(r, position, size)
    local name = r.s:sub(position + 1, position + size):lower()
    r.hides = false
    for _, word in ipairs(secret_words) do
      if name:find(word, 1, true) then r.hides = true end
    end
  end,
}

-- The meaning's action of each field, by number; and the fields that may be hidden.
local actions, secret, config_value = {}, {}, {}
for i, field in ipairs(fields) do
  actions[i] = meanings[field[4]]
  secret[i] = field[4] == "secret"
  config_value[i] = field[4] == "config_value"
end

-- Fields --------------------------------------------------------------------------------------------------------------

local read_records -- of the next part
local value

local KINDS = {[0] = "bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes",
  "records", "struct"}
local SIZES = {[0] = 1, 1, 2, 4, 8, 2, 4, 8, 16}
local UUID, STRING, RECORDS, STRUCT = 8, 9, 11, 12

-- A field that is null is not there to be filtered for, but is shown.
local function show_null(r, field, position, size, tree)
  if tree then tree:add(r.view(position, size), fields[field][2] .. ": null") end
end

-- A string. One with NUL in it, at which Wireshark would end, is shown with what is not printable as \xNN.
local function show_text(field, r, position, n, tree)
  local bytes = r.s:sub(position + 1, position + n)
  if bytes:find("%z") then
    return tree:add(field, r.view(position, n), (bytes:gsub("[^\32-\126]", function(c) return ("\\x%02x"):format(byte(c)) end)))
  end
  return (tree:add_packet_field(field, r.view(position, n), ENC_UTF_8))
end

local function fixed(kind)
  local size, what, is_uuid = SIZES[kind], KINDS[kind], kind == UUID
  return function(r, field, _, position, tree)
    if position + size > r.n then need(r, position, size, what) end
    local item
    if tree then
      if is_uuid then
        item = tree:add(shown[field], r.view(position, size), uuid(r.s, position))
      else
        item = tree:add(shown[field], r.view(position, size))
      end
    end
    local action = actions[field]
    if action then action(r, position, size, item) end
    return position + size
  end
end

-- The function that reads a length and the position behind it; -1 for null.
local function length(compact, nullable, narrow, what)
  return function(r, position)
    local n, start = nil, position
    if compact then
      n, position = uvarint(r, position, what)
      n = n == -2147483648 and 2147483647 or n - 1
    elseif narrow then
      need(r, position, 2, what)
      n, position = int16(r.s, position), position + 2
    else
      need(r, position, 4, what)
      n, position = int32(r.s, position), position + 4
    end
    if n < 0 then
      if not nullable then fail(r, start, what .. " is " .. n .. ", where null is not allowed") end
      n = -1
    end
    return n, position
  end
end

local function text(compact, nullable)
  local read_length = length(compact, nullable, true, "a string's length")
  return function(r, field, _, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(r, field, start, position - start, tree)
      return position
    end
    if n > MAX_STRING then fail(r, start, "a string of " .. n .. " bytes, where " .. MAX_STRING .. " are allowed") end
    if position + n > r.n then need(r, position, n, "a string") end
    if tree then
      if n > 0 and (secret[field] or (config_value[field] and r.hides)) then
        tree:add(r.view(start, position + n - start), fields[field][2] .. ": [redacted]")
      elseif n == 0 then
        tree:add(shown[field], r.view(start, position - start), "")
      else
        show_text(shown[field], r, position, n, tree)
      end
    end
    local action = actions[field]
    if action then action(r, position, n) end
    return position + n
  end
end

local function blob(compact, nullable, kind)
  local read_length = length(compact, nullable, false, "the length of " .. KINDS[kind])
  return function(r, field, _, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(r, field, start, position - start, tree)
      return position
    end
    if position + n > r.n then need(r, position, n, KINDS[kind]) end
    if kind == RECORDS then
      local item = tree and tree:add(shown[field], r.view(start, position + n - start), n)
      read_records(r, position, position + n, item)
    elseif tree then
      if n > 0 and secret[field] then
        tree:add(r.view(start, position + n - start), ("%s: [redacted], %d bytes"):format(fields[field][2], n))
      elseif n == 0 then
        tree:add(shown[field], span(r, start, 0))
      else
        tree:add(shown[field], r.view(position, n))
      end
    end
    return position + n
  end
end

-- The tagged fields behind a struct. Those of other versions are refused, as Kafka refuses them.
local function tagged_fields(r, layout, position, tree)
  local count, start = nil, position
  count, position = uvarint(r, position, "the number of tagged fields")
  if count == 0 then return position end
  if count < 0 or count > MAX_TAGS or count > r.n - position then fail(r, start, count .. " tagged fields") end
  if tree and not affords(3 * count) then
    too_much(tree, "what is tagged")
    tree = nil
  end
  local known, foreign = layout[4], layout[5]
  for _ = 1, count do
    local tag, size
    start = position
    tag, position = uvarint(r, position, "a tag")
    size, position = uvarint(r, position, "a tagged field's size")
    if foreign and foreign[tag] then fail(r, start, "tag " .. tag .. ", which other versions have") end
    local op = known and known[tag]
    if op then
      position = value(r, op[1], op[2], op[3], position, tree)
    else
      if size < 0 then fail(r, start, "a tagged field of " .. size .. " bytes") end
      need(r, position, size, "a tagged field")
      if tree then
        local item = tree:add(own.unknown_tag, r.view(start, position + size - start), tag % 4294967296)
        if size > 0 then item:add(own.unknown_tag_data, r.view(position, size)) end
      end
      position = position + size
    end
  end
  return position
end

local function struct(r, layout, position, tree)
  local ops = layout[3]
  for i = 1, #ops, 3 do
    position = value(r, ops[i], ops[i + 1], ops[i + 2], position, tree)
  end
  if layout[1] then return tagged_fields(r, layout, position, tree) end
  return position
end

local function nested(compact, nullable)
  return function(r, field, layout, start, tree)
    local position = start
    if nullable then
      local mark
      if compact then
        mark, position = uvarint(r, position, "the mark of a nullable struct")
        mark = mark > 0 and 1 or -1
      else
        need(r, position, 1, "the mark of a nullable struct")
        mark, position = byte(r.s, position + 1) < 128 and 1 or -1, position + 1
      end
      if mark < 0 then
        show_null(r, field, start, position - start, tree)
        return position
      end
    end
    local item = tree and tree:add(shown[field], span(r, start, position - start))
    position = struct(r, r.layouts[layout], position, item)
    if item then item:set_len(position - start) end
    return position
  end
end

-- What an element of an array is called beside its number: its name, where that is what it begins with.
local function summary(r, layout, position)
  local code = layout[3][1]
  if code == STRING or code == STRING + 16 then
    local n
    if code == STRING then
      n, position = uint16(r.s, position), position + 2
    else
      n, position = uvarint(r, position, "a string's length")
      n = n - 1
    end
    local name = readable(r.s:sub(position + 1, position + n))
    return name and ": " .. name or ""
  elseif code == 3 then
    return ": " .. ("%d"):format(int32(r.s, position))
  elseif code == 4 then
    return ": " .. tostring(int64(r.s, position))
  end
  return ""
end

local function structs(compact, nullable)
  local read_length = length(compact, nullable, false, "an array's length")
  return function(r, field, number, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(r, field, start, position - start, tree)
      return position
    end
    local layout = r.layouts[number]
    if n * layout[2] > r.n - position then fail(r, start, "an array of " .. n .. " elements, more than there are bytes for") end
    local item
    if tree then
      item = tree:add(counts[field], r.view(start, position - start), n)
      if not affords(n * (2 + #layout[3] / 3)) then
        too_much(item, fields[field][2])
        item = nil
      end
    end
    local label = fields[field][2]
    for i = 0, n - 1 do
      r.named = nil
      if item then
        local begin = position
        local element = item:add(shown[field], span(r, begin, 0))
        position = struct(r, layout, begin, element)
        element:set_len(position - begin)
        element:set_text(label .. "[" .. i .. "]" .. summary(r, layout, begin))
      else
        position = struct(r, layout, position)
      end
    end
    if item then item:set_len(position - start) end
    return position
  end
end

local function values(code, compact, nullable)
  local read_length = length(compact, nullable, false, "an array's length")
  local kind = code % 16
  local smallest = SIZES[kind] or compact and 1 or kind == STRING and 2 or 4
  return function(r, field, arg, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(r, field, start, position - start, tree)
      return position
    end
    if n * smallest > r.n - position then fail(r, start, "an array of " .. n .. " elements, more than there are bytes for") end
    local item
    if tree then
      item = tree:add(counts[field], r.view(start, position - start), n)
      if not affords(n) then
        too_much(item, fields[field][2])
        item = nil
      end
    end
    for _ = 1, n do
      position = value(r, code, field, arg, position, item)
    end
    if item then item:set_len(position - start) end
    return position
  end
end

-- What reads each code.
local readers = {}
for kind = 0, STRUCT do
  for flags = 0, 3 do
    local compact, nullable = flags % 2 == 1, flags >= 2
    local code = kind + flags * 16
    if kind == STRUCT then
      readers[code] = nested(compact, nullable)
      readers[code + 64] = structs(compact, nullable)
    else
      readers[code] = SIZES[kind] and fixed(kind) or kind == STRING and text(compact, nullable) or blob(compact, nullable, kind)
      readers[code + 64] = values(kind + (compact and not SIZES[kind] and 16 or 0), compact, nullable)
    end
  end
end

function value(r, code, field, arg, position, tree)
  return readers[code](r, field, arg, position, tree)
end
