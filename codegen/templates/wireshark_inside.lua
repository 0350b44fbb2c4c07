-- What is inside of bytes: the messages of groups' members, by protocol type and assignor, and a few others.
--
-- `inside` has each content's format, or formats by protocol type or by assignor. A format is how it is read: `int16`, a
-- message behind its version; `int32`, a message whose first field is its version; `version`, a message of a version that is
-- not stated; `first`, the first of several that takes all of the bytes; `text`; `address`; `none`, with why it is not decoded.

do -- a function of Lua has at most 200 local variables

-- The names of all messages that are inside of bytes.
local inside_names = {}
local function collect(formats)
  for _, format in pairs(formats) do
    if by_name[format.name] then inside_names[format.name] = true end
    collect(format.formats or format.of or {})
  end
end
collect(inside)

function wants_content(looks)
  if looks == everything or looks == nothing then return looks == everything end
  if looks.content == nil then
    looks.content = false -- these messages have bytes, too
    local found = wanted(looks, own.message) ~= nil
    for name in pairs(inside_names) do
      for _, root in ipairs(by_name[name].roots) do found = found or wants_any(by_name[name], root, looks) end
    end
    looks.content = found
  end
  return looks.content
end

-- The message of a format, the version that is read, where its fields begin, and the version that is stated.
local function message_of(r, format, position, limit)
  local message, stated, start = by_name[format.name], format.version, position
  if format.how == "int16" or format.how == "int32" then
    local size, number = 2, int16
    if format.how == "int32" then size, number = 4, int32 end
    if limit - position < size then return message end
    stated = number(r.s, position)
    if format.how == "int16" then start = position + 2 end
  end
  local version = message and format.newer and math.min(stated, newest(message)) or stated
  return message, version, start, stated
end

-- Whether all of the bytes are a message of this format.
local function fits(r, format, position, limit)
  for _, each in ipairs(format.formats or {}) do
    if fits(r, each, position, limit) then return true end
  end
  local message, version, start, stated = message_of(r, format, position, limit)
  if not message or version == nil or version ~= stated then return false end
  local after, problem = try(read_message, within(r, limit), message, version, start, nothing)
  return not problem and after == limit
end

-- The format of a content, given what the message states; nil, and why.
local function format_of(r, content, position, limit)
  local found = inside[content]
  if not found.of then return found end
  local name = found.by == "assignor" and r.assignor or found.by ~= "assignor" and r.protocol_type
  if name and name ~= "" then
    local known = {}
    for each in pairs(found.of) do known[#known + 1] = each end
    table.sort(known)
    return found.of[name], ("the %s of %s %s is not known; of %s it is"):format(content, found.by, readable(name) or "?",
      table.concat(known, ", "))
  end
  local fit, names = nil, {}
  for _, format in pairs(found.of) do
    if fits(r, format, position, limit) and not names[format.name] then
      if fit then return nil, ("the message does not state the %s, and the bytes fit more than one layout"):format(found.by) end
      fit, names[format.name] = format, true
    end
  end
  return fit, ("the message does not state the %s, and the bytes fit no layout that is known"):format(found.by)
end

local function show_format(r, format, position, limit, item, looks)
  if format.how == "first" then
    local chosen = format.formats[1]
    for i = #format.formats, 1, -1 do
      if fits(r, format.formats[i], position, limit) then chosen = format.formats[i] end
    end
    return show_format(r, chosen, position, limit, item, looks)
  elseif format.how == "none" then
    return add_expert(item, expert.not_decoded, format.why)
  elseif format.how == "text" then
    local text = readable(sub(r.s, position + 1, limit))
    if text then append_text(item, " (" .. text .. ")") end
    return
  elseif format.how == "address" then
    if limit - position == 4 then append_text(item, (" (%d.%d.%d.%d)"):format(byte(r.s, position + 1, limit))) end
    return
  end
  local message, version, start, stated = message_of(r, format, position, limit)
  if not message or version == nil then
    return add_expert(item, expert.not_decoded, message and "no version at its beginning" or "no schema of " .. format.name)
  end
  local inner = within(r, limit)
  inner.protocol_type, inner.assignor = r.protocol_type, r.assignor
  local node = item
  if wanted(looks, own.message) then
    node = add(item, own.message, span(r, position, limit - position), message.name)
    local as = stated ~= version and (", read as v%d"):format(version) or ""
    if looks == everything then set_text(node, ("%s v%d%s"):format(message.name, stated, as)) end
  end
  local after, problem = try(read_message, inner, message, version, start, looks, node)
  if problem then
    add_expert(node, expert.not_decoded, problem.text)
  elseif after < limit then
    add_expert(node, expert.left_over, ("%d bytes left over behind the message"):format(limit - after))
  end
end

function read_inside(r, content, position, limit, item, looks)
  if not affords(20) then return end
  local format, why = format_of(r, content, position, limit)
  if not format then return add_expert(item, expert.not_decoded, why) end
  show_format(r, format, position, limit, item, looks)
end

end
