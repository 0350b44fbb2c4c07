-- Frames: requests and responses, header and body, and which request a response answers.

local API_VERSIONS, CONTROLLED_SHUTDOWN, PRODUCE, SASL_HANDSHAKE, UNSUPPORTED_VERSION = 18, 7, 0, 17, 35
local MAX_FRAME, MAX_CLIENT_ID = 256 * 1024 * 1024, 1024
-- Versions above the newest one, and api keys above the highest, that a newer release may have.
local NEWER, MOST_API_VERSIONS = 10, 100
-- How far a message is decoded.
local DEGREES = {whole = "whole", left_over = "bytes left over", partial = "partial", header = "header only"}

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

-- Of versions that are not known, too: a message that is flexible stays so.
local function is_flexible(message, version)
  return message.flexible ~= nil and version >= message.flexible
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

local highest = -1
for key in pairs(requests) do highest = math.max(highest, key) end

-- Whether a request of that key and version may be; `newer`: also of the next releases.
local function may_be_request(key, version, newer)
  local message = requests[key]
  if message and has_version(message, version) then return true end
  if version < 0 then return false end
  if key == API_VERSIONS and message then return version < MOST_API_VERSIONS end
  if not newer then return false end
  if message then return version <= newest(message) + NEWER end
  return requests[API_VERSIONS] ~= nil and key > highest and key <= highest + NEWER and version <= NEWER
end

-- Whether a request, from its size on, may begin at `at` of `s`: true, false, or nil where there are too few bytes.
-- `newer`: of the next releases, too.
local function looks_like_request(s, at, newer)
  local left = #s - at
  if left < 8 then return nil end
  local size, key, version = int32(s, at), int16(s, at + 4), int16(s, at + 6)
  if size < 8 or size > MAX_FRAME or not may_be_request(key, version, newer) then return false end
  if key == CONTROLLED_SHUTDOWN and version == 0 then return size == 12 end -- older than the client id
  if left < 14 then return nil end
  local n = int16(s, at + 12)
  if size < 10 or n < -1 or n > math.min(MAX_CLIENT_ID, size - 10) then return false end
  local control = s:find("[%z\1-\31\127]", at + 15)
  return not control or control > at + 14 + n
end

-- Showing -------------------------------------------------------------------------------------------------------------

-- Adds a field of the frame that was found out, not read.
local function add_found(looks, tree, field, found)
  if wanted(looks, field) then set_generated(add(tree, field, found)) end
end

-- The bytes from `position` on, which were not read.
local function show_undecoded(r, position, looks, tree)
  local left = math.max(0, r.n - position)
  if left > 0 and wanted(looks, own.undecoded) then add(tree, own.undecoded, range(r.view, position, left), left) end
end

local function header_only(r, position, looks, tree, why)
  r.degree = DEGREES.header
  add_expert(tree, expert.unknown, why)
  show_undecoded(r, position, looks, tree)
end

local function problem_in(r, tree, problem)
  r.degree = DEGREES.partial
  if problem.cut then
    add_expert(tree, expert.cut, problem.text .. ": the capture ends before")
  else
    add_expert(tree, expert.malformed, ("at byte %d: %s"):format(problem.position, problem.text))
  end
end

-- Whether bodies are shown: the preference. Wireshark calls `prefs_changed` when it changes.
local bodies = true

function kafkawire.prefs_changed()
  bodies = kafkawire.prefs.bodies
end

-- A message and the tree of it; its position behind, or nil where it cannot be read.
local function show_body(r, message, version, position, looks, tree)
  local node, inside = tree, bodies and affords(20) and looks or nothing
  if wanted(looks, own.message) then
    node = add(tree, own.message, span(r, position, r.n - position), message.name)
    if looks == everything then set_text(node, message.name .. " v" .. version) end
  end
  local after, problem = try(read_message, r, message, version, position, inside, node)
  r.degree = DEGREES.whole
  if problem then
    problem_in(r, node, problem)
    show_undecoded(r, problem.position, looks, node)
  elseif after ~= r.n then
    r.degree = DEGREES.left_over
    add_expert(node, expert.left_over, ("%d bytes left over behind the message"):format(r.n - after))
    show_undecoded(r, after, looks, node)
  end
end

local function show_head(api_key, version, looks, tree)
  add_found(looks, tree, own.api, api_names[api_key])
  add_found(looks, tree, own.version, version)
end

local function read_header(name, r, version, position, looks, tree)
  local message = by_name[name]
  if not message then fail(r, position, "no schema of " .. name) end
  return read_message(r, message, version, position, looks, tree)
end

-- Requests and responses ------------------------------------------------------------------------------------------------

local function show_request(r, api_key, version, looks, tree)
  local message = requests[api_key]
  show_head(api_key, version, looks, tree)
  -- Of an api that is not known, the header up to the client id, which all versions have.
  local header = message and request_header(message, version) or 1
  local after, problem = try(read_header, "RequestHeader", r, header, 4, looks, tree)
  if problem then return problem_in(r, tree, problem) end
  if not message then
    return header_only(r, after, looks, tree, "no request is known with api key " .. api_key)
  elseif not has_version(message, version) then
    return header_only(r, after, looks, tree, ("%s has no version %d here"):format(message.name, version))
  end
  show_body(r, message, version, after, looks, tree)
end

-- The version of a response's body. A broker that does not know an ApiVersions request's version answers with error 35
-- in a body of version 0 (KIP-511), unless its bytes can be read in the requested version.
local function body_version(r, message, version, position)
  if message.api_key ~= API_VERSIONS or r.n < position + 2 or int16(r.s, position) ~= UNSUPPORTED_VERSION then return version end
  if not has_version(message, version) then return 0 end
  local after, problem = try(read_message, {s = r.s, n = r.n}, message, version, position, nothing)
  return not problem and after == r.n and version or 0
end

-- A response to a request of that key and version; false where the request is not known.
local function show_response(r, api_key, version, looks, tree)
  if not api_key then
    local after, problem = try(read_header, "ResponseHeader", r, 0, 4, looks, tree)
    add_expert(tree, expert.unmatched)
    if problem then return problem_in(r, tree, problem) end
    r.degree = DEGREES.header
    show_undecoded(r, after, looks, tree)
    return
  end
  local message = responses[api_key]
  if not message then
    show_head(api_key, version, looks, tree)
    local after, problem = try(read_header, "ResponseHeader", r, 0, 4, looks, tree)
    if problem then return problem_in(r, tree, problem) end
    return header_only(r, after, looks, tree, "no response is known with api key " .. api_key)
  end
  local after, problem = try(read_header, "ResponseHeader", r, response_header(message, version), 4, looks, tree)
  if problem then return problem_in(r, tree, problem) end
  version = body_version(r, message, version, after)
  show_head(api_key, version, looks, tree)
  if not has_version(message, version) then
    return header_only(r, after, looks, tree, ("%s has no version %d here"):format(message.name, version))
  end
  show_body(r, message, version, after, looks, tree)
  for _, name in ipairs(r.errors or {}) do
    if not affords(1) then break end
    add_found(looks, tree, own.errors, name)
  end
end
