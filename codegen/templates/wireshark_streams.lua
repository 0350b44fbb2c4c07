-- Streams: the TCP segments of a conversation -> its frames.

local streams = {} -- by both ends

function kafkawire.init()
  streams = {}
  topic_names = {[CLUSTER_METADATA_ID] = "__cluster_metadata"}
end

-- The conversation of a packet, and the packet's ends. `server` is the end that answers, once that is known.
local function stream_of(pinfo)
  local from = tostring(pinfo.src) .. " " .. pinfo.src_port
  local to = tostring(pinfo.dst) .. " " .. pinfo.dst_port
  local key = from < to and from .. " " .. to or to .. " " .. from
  local stream = streams[key]
  if not stream then
    stream = {pending = {}, frames = {}, lost = {}, tokens = 0}
    streams[key] = stream
  end
  return stream, from, to
end

-- What a frame is, found out when it is first seen: later its request may be answered, and packets are looked at again
-- in any order. A token of SASL without headers (SaslHandshake v0) is {token = true}.
local function learn_request(stream, s, at, pinfo)
  if stream.raw_tokens and not looks_like_request(s, at) then
    stream.tokens = stream.tokens + 1
    return {token = true}
  end
  local api_key, version, id = int16(s, at + 4), int16(s, at + 6), int32(s, at + 8)
  local found = {api_key = api_key, version = version, id = id, frame = pinfo.number, time = pinfo.rel_ts}
  stream.raw_tokens = api_key == SASL_HANDSHAKE and version == 0
  stream.pending[id] = found
  return found
end

local function learn_response(stream, s, at, pinfo)
  if stream.tokens > 0 then
    stream.tokens = stream.tokens - 1
    return {token = true}
  end
  local id = int32(s, at + 4)
  local request = stream.pending[id]
  stream.pending[id] = nil
  if request then request.answer = pinfo.number end
  return {id = id, request = request}
end

-- Shows the frame at `at`, of `size` bytes behind its own size, of which `there` are captured.
local function show_frame(tvb, s, at, size, there, stream, is_request, pinfo, tree)
  local first = there >= 4 and uint32(s, at + 4) or 0
  local key = pinfo.number .. (is_request and ">" or "<") .. at .. " " .. size .. " " .. first
  local known = stream.frames[key]
  if not known then
    known = (is_request and learn_request or learn_response)(stream, s, at, pinfo)
    stream.frames[key] = known
  end
  local view = tvb(at, 4 + there)
  local r = {s = s:sub(at + 1, at + 4 + there), view = view, n = 4 + there, cut = there < size, errors = {}}
  local about = is_request and known or known.request
  local node = tree:add(kafkawire, view)
  if tree:referenced(own.size) then node:add(own.size, view(0, 4)) end
  local title
  if known.token then
    title = "SASL token"
    node:add(own.sasl_token, view(0, 4 + there), there)
  elseif is_request then
    title = ("%s v%d request %d"):format(api_names[known.api_key], known.version, known.id)
    show_request(r, known, node)
  else
    title = about and ("%s v%d response %d"):format(api_names[about.api_key], about.version, known.id)
      or ("response %d"):format(known.id)
    show_response(r, about, pinfo.rel_ts, node)
  end
  if #r.errors > 0 then
    local words = table.concat(r.errors, ", ", 1, math.min(#r.errors, 3))
    title = title .. " [" .. words .. (#r.errors > 3 and ", ..." or "") .. "]"
  end
  if tree.visible then node:append_text(", " .. title) end
  return title
end

-- Whether a frame may begin at `at`: true, false, or nil where there are too few bytes to tell.
local function begins_frame(stream, s, at, is_request)
  local left = #s - at
  if left < 4 then return nil end
  local size = int32(s, at)
  local token = is_request and stream.raw_tokens or not is_request and stream.tokens > 0
  if size < (token and 0 or 4) or size > MAX_FRAME then return false end
  if left < 8 then return token and left >= 4 + size or nil end
  if token then return true end
  if is_request then return looks_like_request(s, at) end
  if stream.pending[int32(s, at + 4)] then return true end
  -- Of a response that nobody is known to wait for, only one that is whole is believed.
  return size <= left - 4
end

-- How many of the packet's bytes were taken; where more are wanted, TCP was told. What begins no frame is remembered:
-- when the packet is looked at again, later frames have changed what is expected.
local function dissect(tvb, pinfo, tree, stream, is_request)
  local s, n, at = tvb:raw(), tvb:len(), 0
  local whole = tvb:reported_len() == n
  local number, visited = pinfo.number, pinfo.visited
  local titles = {}
  while at < n do
    local left = n - at
    local size = left >= 4 and int32(s, at) or nil
    local begins
    if not visited then
      begins = begins_frame(stream, s, at, is_request)
    elseif stream.lost[number .. (is_request and ">" or "<") .. at .. " " .. left] then
      begins = false
    else
      begins = size and true
    end
    if begins ~= false and (begins == nil or size > left - 4) and whole and pinfo.can_desegment > 0 then
      pinfo.desegment_offset = at
      local known = size and size >= 0 and size <= MAX_FRAME and size > left - 4
      pinfo.desegment_len = known and size - (left - 4) or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    if not begins then
      if at == 0 and not stream.server then return 0 end
      stream.lost[number .. (is_request and ">" or "<") .. at .. " " .. left] = true
      local node = tree:add(kafkawire, tvb(at, left))
      node:add_proto_expert_info(expert.lost, ("%d bytes of no frame whose beginning is known"):format(left))
      titles[#titles + 1] = "not the beginning of a frame"
      break
    end
    local there = math.min(size, left - 4)
    titles[#titles + 1] = show_frame(tvb, s, at, size, there, stream, is_request, pinfo, tree)
    at = at + 4 + there
  end
  if #titles > 0 then
    pinfo.cols.protocol = "Kafka"
    pinfo.cols.info:set(#titles > 8 and ("%d frames, %s, ..."):format(#titles, titles[1]) or table.concat(titles, "; "))
    pinfo.cols.info:fence()
  end
  return n
end

local last_packet = 0

-- A new packet may spend anew; one that is not behind the last begins a pass in which other fields may be asked for.
local function begin_packet(pinfo)
  local number = pinfo.number
  if number <= last_packet then forget_wanted() end
  if number ~= last_packet or pinfo.visited then spent = 0 end
  last_packet = number
end

-- On a port that is Kafka's, or that somebody says is.
function kafkawire.dissector(tvb, pinfo, tree)
  if tvb:len() == 0 then return 0 end
  begin_packet(pinfo)
  local stream, from, to = stream_of(pinfo)
  if not stream.server then
    if looks_like_request(tvb:raw(0, math.min(tvb:len(), 2048)), 0) then
      stream.server = to
    elseif pinfo.match_uint == pinfo.dst_port then
      if begins_frame(stream, tvb:raw(0, math.min(tvb:len(), 2048)), 0, true) == false then return 0 end
      return dissect(tvb, pinfo, tree, stream, true)
    elseif pinfo.match_uint ~= pinfo.src_port then
      return 0
    else
      return dissect(tvb, pinfo, tree, stream, false)
    end
  end
  return dissect(tvb, pinfo, tree, stream, stream.server == to)
end

-- On any other port: a conversation is Kafka's when it has a request's beginning.
local function recognize(tvb, pinfo, tree)
  if tvb:len() < 8 or not looks_like_request(tvb:raw(0, math.min(tvb:len(), 2048)), 0) then return false end
  local stream, _, to = stream_of(pinfo)
  stream.server = stream.server or to
  pinfo.conversation = kafkawire
  begin_packet(pinfo)
  dissect(tvb, pinfo, tree, stream, stream.server == to)
  return true
end

kafkawire:register_heuristic("tcp", recognize)
kafkawire:register_heuristic("tls", recognize)
-- Wireshark's own dissector has this port, too; the plugin, loaded after it, takes its place there.
DissectorTable.get("tcp.port"):add(9092, kafkawire)

do
  local all = {}
  for _, list in ipairs({own, batch, record, shown, counts}) do
    for _, field in pairs(list) do all[#all + 1] = field end
  end
  kafkawire.fields = all
end
