-- Records: batches of magic 2 and messages of magic 0 and 1; control records; the internal topics' keys and values.

local number_field, NONE = ProtoField.int32, nil
local batch = {
  node = ProtoField.none("kafkawire.batch", "Batch"),
  base_offset = ProtoField.int64("kafkawire.batch.base_offset", "BaseOffset", base.DEC, NONE, NONE, "Offset of the first record."),
  length = number_field("kafkawire.batch.length", "Length", base.DEC, NONE, NONE, "Bytes behind this field."),
  leader_epoch = number_field("kafkawire.batch.leader_epoch", "PartitionLeaderEpoch", base.DEC, NONE, NONE, "Of the leader that appended it."),
  magic = ProtoField.int8("kafkawire.batch.magic", "Magic", base.DEC, NONE, NONE, "The format."),
  crc = ProtoField.uint32("kafkawire.batch.crc", "Crc", base.HEX, NONE, NONE, "CRC-32C from the attributes on (not checked)."),
  attributes = ProtoField.uint16("kafkawire.batch.attributes", "Attributes", base.HEX),
  codec = ProtoField.string("kafkawire.batch.codec", "Codec", base.NONE, "none, gzip, snappy, lz4 or zstd."),
  timestamp_type = ProtoField.string("kafkawire.batch.timestamp_type", "TimestampType", base.NONE, "CreateTime or LogAppendTime."),
  transactional = ProtoField.bool("kafkawire.batch.transactional", "Transactional", base.NONE),
  control = ProtoField.bool("kafkawire.batch.control", "Control", base.NONE, NONE, NONE, "Holds a marker instead of data."),
  last_offset_delta = number_field("kafkawire.batch.last_offset_delta", "LastOffsetDelta", base.DEC),
  base_timestamp = ProtoField.int64("kafkawire.batch.base_timestamp", "BaseTimestamp", base.DEC, NONE, NONE, "Epoch milliseconds."),
  max_timestamp = ProtoField.int64("kafkawire.batch.max_timestamp", "MaxTimestamp", base.DEC, NONE, NONE, "Epoch milliseconds."),
  producer_id = ProtoField.int64("kafkawire.batch.producer_id", "ProducerId", base.DEC),
  producer_epoch = ProtoField.int16("kafkawire.batch.producer_epoch", "ProducerEpoch", base.DEC),
  base_sequence = number_field("kafkawire.batch.base_sequence", "BaseSequence", base.DEC),
  records = number_field("kafkawire.batch.records", "Records", base.DEC, NONE, NONE, "How many there are."),
}
local record = {
  node = ProtoField.none("kafkawire.record", "Record"),
  offset = ProtoField.int64("kafkawire.record.offset", "Offset", base.DEC),
  timestamp = ProtoField.int64("kafkawire.record.timestamp", "Timestamp", base.DEC, NONE, NONE, "Epoch milliseconds."),
  key = ProtoField.bytes("kafkawire.record.key", "Key", base.NONE),
  value = ProtoField.bytes("kafkawire.record.value", "Value", base.NONE),
  header = ProtoField.string("kafkawire.record.header", "Header", base.NONE, "Its key."),
  header_value = ProtoField.bytes("kafkawire.record.header.value", "Value", base.NONE),
}

local CODECS = {[0] = "none", "gzip", "snappy", "lz4", "zstd"}
local HEADER, OVERHEAD = 61, 12

-- The messages of the internal topics, by what their keys or values begin with.
local COORDINATOR_TOPICS = {__transaction_state = "transaction", __consumer_offsets = "group", __share_group_state = "share"}
local FRAMED_TOPICS = {__cluster_metadata = "metadata", __remote_log_metadata = "storage"}
local by_name, by_number = {}, {}
for _, message in ipairs(messages) do
  by_name[message.name] = message
  if message.api_key then by_number[message.family .. " " .. message.kind .. " " .. message.api_key] = message end
end

-- Whether a batch is looked at, and whether what is in it is.
local function wants_inside(looks)
  if looks == everything then return true end
  if looks.inside == nil then
    looks.inside = wanted(looks, own.message) ~= nil
    for _, field in pairs(record) do looks.inside = looks.inside or wanted(looks, field) ~= nil end
    for _, message in ipairs(messages) do
      for _, root in ipairs(message.family ~= "rpc" and message.kind ~= "header" and message.roots or {}) do
        looks.inside = looks.inside or wants_any(message, root, looks)
      end
    end
  end
  return looks.inside
end

function wants_records(looks)
  for _, field in pairs(batch) do
    if wanted(looks, field) then return true end
  end
  return wants_inside(looks)
end

-- A message's body at `position`: the position behind it.
local function read_message(r, message, version, position, looks, tree)
  local root = message.roots[version - message.first + 1]
  if not root then fail(r, position, ("%s has no version %d"):format(message.name, version)) end
  return steps_of(message, root, looks)(r, position, tree)
end

-- The same bytes up to `limit`.
local function within(r, limit)
  return {s = r.s, view = r.view, n = limit, cut = r.cut, topic = r.topic, looks = r.looks}
end

-- A message in a record, shown below `item`. Bytes behind it are left alone, as Kafka's own readers leave them.
local function show_decoded(r, message, version, position, limit, item)
  if not message then
    add_expert(item, expert.unknown, "no message is known that begins so")
    return
  end
  local node = add(item, own.message, span(r, position, limit - position), message.name)
  set_text(node, ("%s v%d"):format(message.name, version))
  local _, problem = try(read_message, within(r, limit), message, version, position, r.looks, node)
  if problem then add_expert(node, expert.malformed, problem.text) end
end

local function newest(message)
  return message.first + #message.roots - 1
end

-- The content of a control record. A version that is newer than the newest known is read as that: markers grow at their end.
local function show_control(r, key, value_at, value_item, key_item)
  local s = r.s
  if not key or key[2] - key[1] < 4 then return end
  local number = int16(s, key[1] + 2)
  local schema = by_name.ControlRecordTypeSchema
  if schema then
    show_decoded(r, schema, math.max(0, math.min(int16(s, key[1]), newest(schema))), key[1] + 2, key[2], key_item)
  end
  local message = by_name[control_messages[number] or ""]
  if not message or not value_at or value_at[2] - value_at[1] < 2 then return end
  local version = math.max(0, math.min(int16(s, value_at[1]), newest(message)))
  -- Only EndTxnMarker has its version in front; the others hold it as a field.
  show_decoded(r, message, version, value_at[1] + (message.name == "EndTxnMarker" and 2 or 0), value_at[2], value_item)
end

-- The messages in key and value of an internal topic's record.
local function show_internal(r, key, value_at, key_item, value_item)
  local family, s = COORDINATOR_TOPICS[r.topic], r.s
  if family then
    if not key or key[2] - key[1] < 2 then return end
    local number = int16(s, key[1])
    local message = by_number[family .. " coordinator-key " .. number]
    show_decoded(r, message, message and newest(message), key[1] + 2, key[2], key_item)
    if value_at and value_at[2] - value_at[1] >= 2 then
      message = by_number[family .. " coordinator-value " .. number]
      show_decoded(r, message, int16(s, value_at[1]), value_at[1] + 2, value_at[2], value_item)
    end
    return
  end
  family = FRAMED_TOPICS[r.topic]
  if not family or not value_at then return end
  local inner = {s = s, n = value_at[2]}
  local _, problem = try(function()
    local frame, number, version, position
    frame, position = uvarint(inner, value_at[1], "the frame version")
    number, position = uvarint(inner, position, "the api key")
    version, position = uvarint(inner, position, "the version")
    show_decoded(r, frame == 1 and by_number[family .. " metadata " .. number], version, position, value_at[2], value_item)
  end)
  if problem then add_expert(value_item, expert.malformed, problem.text) end
end

-- Messages of `__cluster_metadata` with fields that are not shown: the bytes of these records are not shown either.
local hiding = setmetatable({}, {__index = function(known, message)
  known[message] = false
  for number in ipairs(message.layouts) do
    for _, op in ipairs(layout_of(message, number).ops) do
      local meaning = meant[op.field]
      if meaning == "secret" or meaning == "config_value" then known[message] = true end
    end
  end
  return known[message]
end})

-- Whether a record's value may let its reader in.
local function hides(r, value_at)
  if r.topic ~= "__cluster_metadata" or not value_at then return false end
  local inner, message = {s = r.s, n = value_at[2]}, nil
  try(function()
    local _, position = uvarint(inner, value_at[1], "the frame version")
    message = by_number["metadata metadata " .. uvarint(inner, position, "the api key")]
  end)
  return not message or hiding[message]
end

-- One record -----------------------------------------------------------------------------------------------------------

-- A zigzag varint of up to 64 bits: as a number where it is exact, otherwise as Int64.
local function varlong(r, position)
  local s, n, factor = r.s, 0, 1
  for i = 1, 10 do
    if position >= r.n then need(r, position, 1, "a varint") end
    local b = byte(s, position + 1)
    position = position + 1
    if i > 7 then -- above 49 bits
      local high = UInt64.new(n % 4294967296, floor(n / 4294967296)) + UInt64.new(b % 128) * UInt64.new(2) ^ UInt64.new(7 * (i - 1))
      while b >= 128 do
        i = i + 1
        if position >= r.n then need(r, position, 1, "a varint") end
        if i > 10 then fail(r, position, "a varint of more than 10 bytes") end
        b, position = byte(s, position + 1), position + 1
        high = high + UInt64.new(b % 128) * UInt64.new(2) ^ UInt64.new(7 * (i - 1))
      end
      local half = Int64.new((high / UInt64.new(2)):lower(), (high / UInt64.new(2)):higher())
      if high:lower() % 2 == 1 then half = Int64.new(-1) - half end
      return half, position
    end
    n = n + b % 128 * factor
    if b < 128 then
      if n % 2 == 1 then return -(n + 1) / 2, position end
      return n / 2, position
    end
    factor = factor * 128
  end
end

local function varint(r, position, what)
  local n, after = varlong(r, position)
  if type(n) ~= "number" or n < -2147483648 or n > 2147483647 then fail(r, position, what .. " is no varint of 32 bits") end
  return floor(n), after
end

-- The place of bytes behind their varint length, and the position behind them; nil for null.
local function stretch(r, position, what)
  local n, begin = varint(r, position, what)
  if n < 0 then return nil, begin end
  need(r, begin, n, what)
  return {begin, begin + n}, begin + n
end

-- Bytes as a field, with their text where people can read it.
local function show_bytes(r, field, label, place, tree, hidden)
  if not place then return add(tree, label .. ": null") end
  local size = place[2] - place[1]
  if size == 0 then return add(tree, field, span(r, place[1], 0)) end
  if hidden then return add(tree, range(r.view, place[1], size), ("%s: [redacted], %d bytes"):format(label, size)) end
  local item = add(tree, field, range(r.view, place[1], size))
  local words = readable(r.s:sub(place[1] + 1, place[1] + math.min(size, 200)))
  if words then set_text(item, label .. ": " .. words) end
  return item
end

local function show_timestamp(field, view, value, tree)
  local item = add(tree, field, view, value)
  local text = date(value:encode(false), 0)
  if text then append_text(item, " (" .. text .. ")") end
end

-- One record of magic 2 below `tree`; the position behind it. `head`: the batch's fields for all of them.
local function read_record(r, position, head, tree)
  local start, size = position, nil
  size, position = varint(r, position, "a record's length")
  if size < 0 then fail(r, start, "a record of " .. size .. " bytes") end
  need(r, position, size, "a record")
  local limit = position + size
  local inner = within(r, limit)
  local node = add(tree, record.node, range(r.view, start, limit - start))
  position = position + 1 -- attributes, unused
  local delta, offset_delta, key, value_at, count
  local timestamp_at = position
  delta, position = varlong(inner, position)
  local offset_at = position
  offset_delta, position = varint(inner, position, "an offset")
  local offset = head.base_offset + Int64.new(offset_delta)
  append_text(node, " " .. tostring(offset))
  add(node, record.offset, range(r.view, offset_at, position - offset_at), offset)
  local timestamp = head.append_time
  if not timestamp then
    timestamp = head.base_timestamp + (type(delta) == "number" and Int64.new(delta) or delta)
  end
  show_timestamp(record.timestamp, range(r.view, timestamp_at, offset_at - timestamp_at), timestamp, node)
  key, position = stretch(inner, position, "a key's length")
  value_at, position = stretch(inner, position, "a value's length")
  local hidden = hides(inner, value_at)
  local key_item = show_bytes(inner, record.key, "Key", key, node, false)
  local value_item = show_bytes(inner, record.value, "Value", value_at, node, hidden)
  count, start = varint(inner, position, "the number of headers")
  if count < 0 or count > limit - start then fail(inner, position, count .. " headers") end
  position = start
  if not affords(2 * count) then
    too_much(node, "the headers")
    position, count = limit, 0
  end
  for _ = 1, count do
    local name, place
    start = position
    name, position = stretch(inner, position, "a header's key")
    if not name then fail(inner, start, "a header without a key") end
    place, position = stretch(inner, position, "a header's value")
    local item = name[2] > name[1] and show_text(record.header, inner, name[1], name[2] - name[1], node)
      or add(node, record.header, range(r.view, start, name[1] - start), "")
    show_bytes(inner, record.header_value, "Value", place, item, false)
  end
  if position ~= limit then fail(inner, position, limit - position .. " bytes behind a record's headers") end
  if head.control then
    show_control(inner, key, value_at, value_item, key_item)
  elseif r.topic then
    show_internal(inner, key, value_at, key_item, value_item)
  end
  return limit
end

-- Batches ---------------------------------------------------------------------------------------------------------------

local function read_all(r, position, limit, count, head, tree)
  for i = 1, count do
    if not affords(12) then
      too_much(tree, ("%d of %d records"):format(count - i + 1, count))
      return
    end
    position = read_record(r, position, head, tree)
  end
  if position ~= limit then fail(r, position, limit - position .. " bytes behind the last record") end
end

-- A batch of magic 2, all of it there.
local function show_batch(r, start, size, tree)
  local s, view = r.s, r.view
  local attributes = uint16(s, start + 21)
  local codec = CODECS[attributes % 8] or ("unknown codec " .. attributes % 8)
  local log_append, control = floor(attributes / 8) % 2 == 1, floor(attributes / 32) % 2 == 1
  local count, flags = int32(s, start + 57), range(view, start + 21, 2)
  local head = {base_offset = int64(s, start), base_timestamp = int64(s, start + 27), control = control}
  if log_append then head.append_time = int64(s, start + 35) end
  append_text(tree, (": offset %s, %d records"):format(tostring(head.base_offset), count))
  add(tree, batch.base_offset, range(view, start, 8))
  add(tree, batch.length, range(view, start + 8, 4))
  add(tree, batch.leader_epoch, range(view, start + 12, 4))
  add(tree, batch.magic, range(view, start + 16, 1))
  add(tree, batch.crc, range(view, start + 17, 4))
  add(tree, batch.attributes, flags)
  add(tree, batch.codec, flags, codec)
  add(tree, batch.timestamp_type, flags, log_append and "LogAppendTime" or "CreateTime")
  add(tree, batch.transactional, flags, floor(attributes / 16) % 2 == 1)
  add(tree, batch.control, flags, control)
  add(tree, batch.last_offset_delta, range(view, start + 23, 4))
  show_timestamp(batch.base_timestamp, range(view, start + 27, 8), head.base_timestamp, tree)
  show_timestamp(batch.max_timestamp, range(view, start + 35, 8), int64(s, start + 35), tree)
  add(tree, batch.producer_id, range(view, start + 43, 8))
  add(tree, batch.producer_epoch, range(view, start + 51, 2))
  add(tree, batch.base_sequence, range(view, start + 53, 4))
  add(tree, batch.records, range(view, start + 57, 4))
  if not wants_inside(r.looks) then return end
  local position, limit = start + HEADER, start + size
  if codec ~= "none" then
    if position == limit then return end
    local inner = decompressed(r, codec, position, limit)
    if not inner then
      local item = add(tree, own.undecoded, range(view, position, limit - position), limit - position)
      add_expert(item, expert.compressed, codec .. ": not decompressed here")
      return
    end
    r, position, limit = inner, 0, inner.n
  end
  if count < 0 or count > limit - position then fail(r, start + 57, count .. " records in " .. limit - position .. " bytes") end
  read_all(within(r, limit), position, limit, count, head, tree)
end

-- A message of magic 0 or 1: offset, size, crc, magic, attributes, timestamp (magic 1), key, value.
local function show_message(r, start, size, magic, tree)
  local s, view = r.s, r.view
  local least = magic == 0 and 26 or 34
  if size < least then fail(r, start, "a message of " .. size .. " bytes") end
  local codec = CODECS[byte(s, start + 18) % 8] or "an unknown codec"
  append_text(tree, (": offset %s, magic %d"):format(tostring(int64(s, start)), magic))
  add(tree, batch.base_offset, range(view, start, 8))
  add(tree, batch.length, range(view, start + 8, 4))
  add(tree, batch.crc, range(view, start + 12, 4))
  add(tree, batch.magic, range(view, start + 16, 1))
  add(tree, batch.attributes, range(view, start + 17, 1))
  add(tree, batch.codec, range(view, start + 17, 1), codec)
  local position, limit = start + 18, start + size
  if magic == 1 then
    show_timestamp(record.timestamp, range(view, position, 8), int64(s, position), tree)
    position = position + 8
  end
  local places = {}
  for i, what in ipairs({"a key", "a value"}) do
    if position + 4 > limit then fail(r, position, "too few bytes for " .. what) end
    local n = int32(s, position)
    position = position + 4
    if n > limit - position then fail(r, position - 4, what .. " of " .. n .. " bytes") end
    places[i] = n >= 0 and {position, position + n} or nil
    position = position + math.max(0, n)
  end
  show_bytes(r, record.key, "Key", places[1], tree, false)
  if codec == "none" then
    show_bytes(r, record.value, "Value", places[2], tree, false)
  elseif places[2] then
    local item = add(tree, own.undecoded, range(view, places[2][1], places[2][2] - places[2][1]), places[2][2] - places[2][1])
    add_expert(item, expert.compressed, codec .. ": not decompressed here")
  end
end

local function read_batch(r, start, size, magic, tree)
  if magic == 2 then
    if size < HEADER then fail(r, start, "a batch of " .. size .. " bytes") end
    show_batch(r, start, size, tree)
  elseif magic < 2 then
    show_message(r, start, size, magic, tree)
  else
    fail(r, start + 16, "a batch of magic " .. magic)
  end
end

-- The batches from `position` to `limit`. The last one may be cut: brokers cut responses at the requested size.
function read_records(r, position, limit, tree, looks)
  r.looks = looks
  while position < limit do
    if not affords(20) then return too_much(tree, "what is left") end
    local left = limit - position
    local size = left >= 17 and int32(r.s, position + 8) + OVERHEAD or left
    if left < 17 or size > left then
      add(tree, range(r.view, position, left), ("The beginning of a batch, %d bytes"):format(left))
      return
    end
    if size <= OVERHEAD then
      local item = add(tree, range(r.view, position, left), "No batch")
      add_expert(item, expert.malformed, "a batch of " .. size .. " bytes")
      return
    end
    local node = add(tree, batch.node, range(r.view, position, size))
    local _, problem = try(read_batch, r, position, size, byte(r.s, position + 17), node)
    if problem then add_expert(node, expert.malformed, problem.text) end
    position = position + size
  end
end
