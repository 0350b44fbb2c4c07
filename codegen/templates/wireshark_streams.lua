-- Streams: the TCP segments of a conversation -> its frames.

local streams -- by the end that sent first, and the other

-- What is known of each frame, by its number in the order in which they were first seen. Lists of numbers, for a capture
-- has millions of frames: what it is, where it is, which frame it answers and which packet answers it, and what
-- distinguishes it from another that begins at the same place of the same packet.
local places, keys, versions, ids, packets, times, requests_of, answers, sizes, asks, others

local function forget_all()
  streams = {}
  places, keys, versions, ids, packets, times, requests_of, answers, sizes, asks, others = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
  topic_names = {[CLUSTER_METADATA_ID] = "__cluster_metadata"}
end
forget_all()
kafkawire.init = forget_all

-- The conversation of a packet, and which of its ends sent it, 1 or 2. `server` is the end that answers, once that is
-- known.
local function stream_of(pinfo)
  local from, to = tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
  local senders = streams[from]
  local found = senders and senders[to]
  if found then return found, 1 end
  senders = streams[to]
  found = senders and senders[from]
  if found then return found, 2 end
  found = {pending = {}, lost = {}, tokens = 0}
  streams[from] = streams[from] or {}
  streams[from][to] = found
  return found, 1
end

-- What a frame is, found out when it is first seen: later its request may be answered, and packets are looked at again
-- in any order. A token of SASL without headers (SaslHandshake v0) stays without an id.
local function learn_request(stream, s, at, frame)
  if stream.raw_tokens and not looks_like_request(s, at) then
    stream.tokens = stream.tokens + 1
    return
  end
  local key, version, id = int16(s, at + 4), int16(s, at + 6), int32(s, at + 8)
  keys[frame], versions[frame], ids[frame] = key, version, id
  stream.raw_tokens = key == SASL_HANDSHAKE and version == 0
  stream.pending[id] = frame
end

local function learn_response(stream, s, at, frame)
  if stream.tokens > 0 then
    stream.tokens = stream.tokens - 1
    return
  end
  local id = int32(s, at + 4)
  local request = stream.pending[id]
  stream.pending[id] = nil
  ids[frame], requests_of[frame] = id, request or false
  if request then
    keys[frame], versions[frame] = keys[request], versions[request]
    answers[request] = packets[frame]
  end
end

local function place_of(number, at)
  return number * 536870912 + at
end

-- The number of the frame of `size` bytes at `at` of the packet.
local function know(stream, s, at, size, is_request, number, pinfo)
  local place = place_of(number, at)
  local frame = places[place]
  while frame do
    if sizes[frame] == size and asks[frame] == is_request then return frame end
    frame = others[frame]
  end
  frame = #sizes + 1
  keys[frame], versions[frame], ids[frame], requests_of[frame], answers[frame] = false, false, false, false, false
  sizes[frame], packets[frame], times[frame], others[frame] = size, number, pinfo.rel_ts, places[place] or false
  places[place], asks[frame] = frame, is_request;
  (is_request and learn_request or learn_response)(stream, s, at, frame)
  return frame
end

local function title_of(frame, is_request)
  if ids[frame] == false then return "SASL token" end
  if not keys[frame] then return "response " .. ids[frame] end
  return ("%s v%d %s %d"):format(api_names[keys[frame]], versions[frame], is_request and "request" or "response", ids[frame])
end

-- Shows a frame at `at`, of which `there` bytes behind its size are captured. Its title, where `titled`.
local function show_frame(tvb, s, at, there, frame, is_request, titled, tree)
  local view = tvb(at, 4 + there)
  local r = {s = #s == 4 + there and s or sub(s, at + 1, at + 4 + there), view = view, n = 4 + there, cut = there < sizes[frame]}
  local node = add(tree, kafkawire, view)
  local looks = looks_at(node)
  if wanted(looks, own.size) then add(node, own.size, range(view, 0, 4)) end
  if ids[frame] == false then
    add(node, own.sasl_token, view, there)
  elseif is_request then
    if answers[frame] then add_found(looks, node, own.response_in, answers[frame]) end
    show_request(r, keys[frame], versions[frame], looks, node)
  else
    local request = requests_of[frame]
    if request then
      add_found(looks, node, own.request_in, packets[request])
      if wanted(looks, own.latency) then
        local latency = math.max(0, times[frame] - times[request])
        local seconds = floor(latency)
        add_found(looks, node, own.latency, NSTime.new(seconds, floor((latency - seconds) * 1e9 + 0.5)))
      end
    end
    show_response(r, keys[frame], versions[frame], looks, node)
  end
  if r.degree then add_found(looks, node, own.degree, r.degree) end
  if not titled and looks ~= everything then return end
  local title = title_of(frame, is_request)
  if r.errors then
    local words = table.concat(r.errors, ", ", 1, math.min(#r.errors, 3))
    title = title .. " [" .. words .. (#r.errors > 3 and ", ..." or "") .. "]"
  end
  if looks == everything then append_text(node, ", " .. title) end
  return title
end

-- Whether a frame may begin at `at`: true, false, or nil where there are too few bytes.
local function begins_frame(stream, s, at, is_request)
  local left = #s - at
  if left < 4 then return nil end
  local size = int32(s, at)
  local token = is_request and stream.raw_tokens or not is_request and stream.tokens > 0
  if size < (token and 0 or 4) or size > MAX_FRAME then return false end
  if left < 8 then return token and left >= 4 + size or nil end
  if token then return true end
  if is_request then return looks_like_request(s, at, true) end
  if stream.pending[int32(s, at + 4)] then return true end
  -- A response without a known request is accepted only if it is complete.
  return size <= left - 4
end

-- How many of the packet's bytes were taken; where more are wanted, TCP was notified. What begins no frame is remembered:
-- when the packet is looked at again, later frames have changed what is expected.
local function dissect(tvb, s, n, number, visited, pinfo, tree, stream, is_request)
  local info, at = pinfo.cols.info, 0
  local titles = tostring(info) ~= "(info)" and {} or nil -- its text where columns are not shown
  while at < n do
    local left = n - at
    local size = left >= 4 and int32(s, at) or nil
    local begins
    if not visited then
      begins = begins_frame(stream, s, at, is_request)
    elseif stream.lost[number .. (is_request and ">" or "<") .. at .. " " .. left] then
      begins = false
    elseif size then -- what is put together now may begin elsewhere than when it was first seen
      begins = size >= 0 and size <= MAX_FRAME and (left >= 12 or places[place_of(number, at)] ~= nil)
    end
    if begins ~= false and (begins == nil or size > left - 4) and tvb:reported_len() == n and pinfo.can_desegment > 0 then
      pinfo.desegment_offset = at
      local known = size and size >= 0 and size <= MAX_FRAME and size > left - 4
      pinfo.desegment_len = known and size - (left - 4) or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    if not begins then
      if at == 0 and not stream.server then return 0 end
      stream.lost[number .. (is_request and ">" or "<") .. at .. " " .. left] = true
      local node = add(tree, kafkawire, tvb(at, left))
      add_expert(node, expert.lost, ("%d bytes of no frame whose beginning is known"):format(left))
      if titles then titles[#titles + 1] = "not the beginning of a frame" end
      break
    end
    local there = math.min(size, left - 4)
    local frame = know(stream, s, at, size, is_request, number, pinfo)
    local title = show_frame(tvb, s, at, there, frame, is_request, titles ~= nil, tree)
    if titles then titles[#titles + 1] = title end
    at = at + 4 + there
  end
  if titles and #titles > 0 then
    pinfo.cols.protocol = "Kafka"
    info:set(#titles > 8 and ("%d frames, %s, ..."):format(#titles, titles[1]) or table.concat(titles, "; "))
    info:fence()
  end
  return n
end

local last_packet = 0

-- A new packet may spend anew; one that is not behind the last begins a pass in which other fields may be requested.
local function begin_packet(number, visited)
  if number <= last_packet then forget_asked() end
  if number ~= last_packet or visited then spent = 0 end
  last_packet = number
end

-- On a port of Kafka's, or one that the user assigned to Kafka.
function kafkawire.dissector(tvb, pinfo, tree)
  local n = tvb:len()
  if n == 0 then return 0 end
  local number, visited = pinfo.number, pinfo.visited
  begin_packet(number, visited)
  local stream, sender = stream_of(pinfo)
  local s = tvb:raw()
  if not stream.server then
    if looks_like_request(s, 0) then
      stream.server = 3 - sender
    elseif pinfo.match_uint == pinfo.dst_port then
      if begins_frame(stream, s, 0, true) == false then return 0 end
      return dissect(tvb, s, n, number, visited, pinfo, tree, stream, true)
    elseif pinfo.match_uint ~= pinfo.src_port then
      return 0
    else
      return dissect(tvb, s, n, number, visited, pinfo, tree, stream, false)
    end
  end
  return dissect(tvb, s, n, number, visited, pinfo, tree, stream, stream.server ~= sender)
end

-- On any other port: a conversation is Kafka's when it has a request's beginning.
local function recognize(tvb, pinfo, tree)
  local n = tvb:len()
  if n < 8 or not looks_like_request(tvb:raw(0, math.min(n, 2048)), 0) then return false end
  local stream, sender = stream_of(pinfo)
  stream.server = stream.server or 3 - sender
  pinfo.conversation = kafkawire
  begin_packet(pinfo.number, pinfo.visited)
  dissect(tvb, tvb:raw(), n, pinfo.number, pinfo.visited, pinfo, tree, stream, stream.server ~= sender)
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
