-- Frames: requests and responses, header and body, and which request a response answers.

local API_VERSIONS, CONTROLLED_SHUTDOWN, PRODUCE, SASL_HANDSHAKE, UNSUPPORTED_VERSION = 18, 7, 0, 17, 35
local MAX_FRAME, MAX_CLIENT_ID = 256 * 1024 * 1024, 1024

local requests, responses = {}, {}
for _, message in ipairs(messages) do
  if message.family == "rpc" and message.api_key then
    local kinds = message.kind == "request" and requests or message.kind == "response" and responses or {}
    kinds[message.api_key] = message
  end
end

local api_names = setmetatable({}, {__index = function(names, key)
  local message = requests[key]
  local name = message and message.name:gsub("Request$", "") or numbers.api_key and numbers.api_key[key] or ("UNKNOWN_" .. key)
  names[key] = name
  return name
end})

local function has_version(message, version)
  return version >= message.first and version <= newest(message)
end

local function is_flexible(message, version)
  return message.flexible ~= nil and has_version(message, version) and version >= message.flexible
end

-- Which version of the header precedes a message (Kafka's ApiMessageType).
local function request_header(message, version)
  if message.api_key == CONTROLLED_SHUTDOWN and version == 0 then return 0 end
  return is_flexible(message, version) and 2 or 1
end

local function response_header(message, version)
  if message.api_key == API_VERSIONS then return 0 end
  return is_flexible(message, version) and 1 or 0
end

-- Whether a request, from its size on, may begin at `at` of `s`: true, false, or nil where there are too few bytes.
local function looks_like_request(s, at)
  local left = #s - at
  if left < 8 then return nil end
  local size, key, version = int32(s, at), int16(s, at + 4), int16(s, at + 6)
  local message = requests[key]
  if not message or size < 8 or size > MAX_FRAME then return false end
  if not has_version(message, version) and not (key == API_VERSIONS and version >= 0 and version < 100) then return false end
  if key == CONTROLLED_SHUTDOWN and version == 0 then return size == 12 end -- older than the client id
  if left < 14 then return nil end
  local n = int16(s, at + 12)
  if size < 10 or n < -1 or n > math.min(MAX_CLIENT_ID, size - 10) then return false end
  local control = s:find("[%z\1-\31\127]", at + 15)
  return not control or control > at + 14 + n
end

-- Showing -------------------------------------------------------------------------------------------------------------

-- The fields of a message, each once.
local message_fields = setmetatable({}, {__index = function(cache, message)
  local found, seen = {}, {}
  local function take(field)
    if seen[field] then return end
    found[#found + 1], seen[field] = shown[field], true
    found[#found + 1] = counts[field]
  end
  for _, layout in ipairs(message.layouts) do
    for i = 2, #layout[3], 3 do take(layout[3][i]) end
    for _, op in pairs(layout[4] or {}) do take(op[2]) end
    for i = 1, #layout[3], 3 do
      if layout[3][i] % 16 == RECORDS then
        for _, own_field in pairs(batch) do found[#found + 1] = own_field end
        for _, own_field in pairs(record) do found[#found + 1] = own_field end
      end
    end
  end
  cache[message] = found
  return found
end})

-- What somebody looks at, in the pass over the packets at hand: by message, and by field of frames. Newer Wiresharks tell;
-- where the tree is visible, it is everything.
local wanted = {}

local function forget_wanted()
  wanted = {}
end

local function is_wanted(message, tree)
  if tree.visible then return true end
  local known = wanted[message]
  if known == nil then
    known = false
    for _, field in ipairs(message_fields[message]) do
      if tree:referenced(field) then known = true end
    end
    wanted[message] = known
  end
  return known
end

-- Adds a field of the frame that was found out, not read.
local function add_found(tree, field, found)
  local known = wanted[field]
  if known == nil then
    known = tree:referenced(field) -- of a visible tree always
    wanted[field] = known
  end
  if known then tree:add(field, found):set_generated() end
end

local function problem_in(r, tree, problem)
  if problem.cut then
    tree:add_proto_expert_info(expert.cut, problem.text .. ": the capture ends before")
  else
    tree:add_proto_expert_info(expert.malformed, ("at byte %d: %s"):format(problem.position, problem.text))
  end
end

-- A message and the tree of it; its position behind, or nil where it cannot be read.
local function show_body(r, message, version, position, tree)
  local node = tree
  local shows = kafkawire.prefs.bodies and is_wanted(message, tree) and affords(20)
  if shows or tree:referenced(own.message) then
    node = tree:add(own.message, span(r, position, r.n - position), message.name)
    node:set_text(("%s v%d"):format(message.name, version))
  end
  local after, problem = try(read_message, r, message, version, position, r.n, shows and node or nil)
  if not problem and after ~= r.n then
    problem = {position = after, text = ("%d bytes behind the message"):format(r.n - after)}
  end
  if problem then problem_in(r, node, problem) end
end

local function show_head(api_key, version, tree)
  add_found(tree, own.api, api_names[api_key])
  add_found(tree, own.version, version)
end

local function read_header(name, r, version, position, tree)
  local message = by_name[name]
  if not message then fail(r, position, "no schema of " .. name) end
  return (read_message(r, message, version, position, r.n, is_wanted(message, tree) and tree or nil))
end

-- Requests and responses ------------------------------------------------------------------------------------------------

-- A request. `pending` is what is known of it: api key, version, and the response once it was seen.
local function show_request(r, pending, tree)
  local message = requests[pending.api_key]
  if pending.answer then add_found(tree, own.response_in, pending.answer) end
  show_head(pending.api_key, pending.version, tree)
  if not message then
    tree:add_proto_expert_info(expert.unknown, "no request is known with api key " .. pending.api_key)
    return
  end
  local after, problem = try(read_header, "RequestHeader", r, request_header(message, pending.version), 4, tree)
  if problem then return problem_in(r, tree, problem) end
  if not has_version(message, pending.version) then
    tree:add_proto_expert_info(expert.unknown, ("%s has no version %d here"):format(message.name, pending.version))
    return
  end
  show_body(r, message, pending.version, after, tree)
end

-- The version of a response's body. A broker that does not know an ApiVersions request's version answers with error 35
-- in a body of version 0 (KIP-511), unless what it says reads as the version asked for.
local function body_version(r, message, version, position)
  if message.api_key ~= API_VERSIONS or r.n < position + 2 or int16(r.s, position) ~= UNSUPPORTED_VERSION then return version end
  if not has_version(message, version) then return 0 end
  local after, problem = try(read_message, r, message, version, position, r.n, nil)
  return not problem and after == r.n and version or 0
end

local function show_response(r, pending, time, tree)
  if not pending then
    read_header("ResponseHeader", r, 0, 4, tree)
    tree:add_proto_expert_info(expert.unmatched)
    return
  end
  local message = responses[pending.api_key]
  add_found(tree, own.request_in, pending.frame)
  local latency = math.max(0, time - pending.time)
  add_found(tree, own.latency, NSTime.new(floor(latency), floor((latency - floor(latency)) * 1e9 + 0.5)))
  if not message then
    show_head(pending.api_key, pending.version, tree)
    tree:add_proto_expert_info(expert.unknown, "no response is known with api key " .. pending.api_key)
    return
  end
  local after, problem = try(read_header, "ResponseHeader", r, response_header(message, pending.version), 4, tree)
  if problem then return problem_in(r, tree, problem) end
  local version = body_version(r, message, pending.version, after)
  show_head(pending.api_key, version, tree)
  if not has_version(message, version) then
    tree:add_proto_expert_info(expert.unknown, ("%s has no version %d here"):format(message.name, version))
    return
  end
  show_body(r, message, version, after, tree)
  for _, name in ipairs(r.errors) do
    if not affords(1) then break end
    add_found(tree, own.errors, name)
  end
end
