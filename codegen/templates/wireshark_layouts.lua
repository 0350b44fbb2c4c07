-- Layouts: how structs are read, as functions made of a message's layouts when a packet first needs them.
--
-- A step is `step(r, position, tree) -> position` behind what it read; it adds to `tree` what is shown. Other
-- fields are skipped, fixed sizes at once; errors and topics are still recorded, and malformed fields are found.

local KINDS = {[0] = "bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes",
  "records", "struct"}
local SIZES = {[0] = 1, 1, 2, 4, 8, 2, 4, 8, 16}
local INT32, INT64, UUID, STRING, RECORDS, STRUCT = 3, 4, 8, 9, 11, 12
local COMPACT, NULLABLE, ARRAY = 16, 32, 64

-- What is looked at: where the tree is visible, everything; otherwise what filters, columns and `-T fields` refer to, in
-- the pass over the packets at hand. `steps` has what was made for it, by layout.
local everything, nothing = {steps = {}}, {steps = {}}
local asked = {steps = {}, known = {}}

local function forget_asked()
  asked = {steps = {}, known = {}}
end

-- What is looked at in a tree.
local function looks_at(tree)
  if tree.visible then return everything end
  asked.tree = tree
  return asked
end

-- The field, where it is looked at.
local function wanted(looks, field)
  if looks == everything then return field end
  if looks == nothing or not field then return nil end
  local known = looks.known[field]
  if known == nil then
    known = referenced(looks.tree, field)
    looks.known[field] = known
  end
  return known and field or nil
end

-- A layout of a message, by number.
local function layout_of(message, number)
  local layout = message.layouts[number]
  if type(layout) ~= "string" then return layout end
  local kind, smallest, ops, tags, foreign = layout:match("^(%a+) (%d+) (%S+) (%S+) (%S+)$")
  layout = {flexible = kind == "flexible", smallest = tonumber(smallest), ops = {}, tags = {}, foreign = {}}
  for code, field, inner in ops:gmatch("(%d+),(%d+),(%d+)") do
    layout.ops[#layout.ops + 1] = {code = tonumber(code), field = tonumber(field), layout = tonumber(inner)}
  end
  for tag, code, field, inner in tags:gmatch("(%d+)=(%d+),(%d+),(%d+)") do
    layout.tags[tonumber(tag)] = {code = tonumber(code), field = tonumber(field), layout = tonumber(inner)}
  end
  for tag in foreign:gmatch("%d+") do layout.foreign[tonumber(tag)] = true end
  message.layouts[number] = layout
  return layout
end

local steps_of, step_of, read_records, wants_records, read_inside, wants_content -- of below, and of the next parts

-- What the bytes of a field contain, or nil.
local function content_of(field)
  return meant[field] and meant[field]:match("^inside (.+)$")
end

-- Whether anything of a layout is looked at.
local function wants_any(message, number, looks)
  if looks == everything or looks == nothing then return looks == everything end
  local layout = layout_of(message, number)
  local function wants(op)
    return wanted(looks, shown[op.field]) or wanted(looks, counts[op.field])
      or op.code % 16 == STRUCT and wants_any(message, op.layout, looks)
      or op.code % 16 == RECORDS and wants_records(looks)
      or content_of(op.field) and wants_content(looks)
  end
  for _, op in ipairs(layout.ops) do
    if wants(op) then return true end
  end
  for _, op in pairs(layout.tags) do
    if wants(op) then return true end
  end
  return wanted(looks, own.unknown_tag) ~= nil or wanted(looks, own.unknown_tag_data) ~= nil
end

-- A field that is null is not there to be filtered for, but is shown.
local function show_null(looks, r, op, position, size, tree)
  if looks == everything then add(tree, range(r.view, position, size), labels[op.field] .. ": null") end
end

-- What is done when a field is read; nil where nothing is.
local function action_of(field, is_shown)
  local meaning = meant[field]
  return meanings[meaning] or is_shown and shown_meanings[meaning] or nil
end

-- Fixed sizes ---------------------------------------------------------------------------------------------------------

local function fixed(op, looks)
  local kind = op.code % 16
  local size, what, field = SIZES[kind], KINDS[kind], wanted(looks, shown[op.field])
  local action, is_uuid = action_of(op.field, field ~= nil), kind == UUID
  return function(r, position, tree)
    if position + size > r.n then need(r, position, size, what) end
    local item
    if field then
      local view = range(r.view, position, size)
      if is_uuid then
        item = add(tree, field, view, uuid(r.s, position))
      else
        item = add(tree, field, view)
      end
    end
    if action then action(r, position, size, item) end
    return position + size
  end
end

-- Fields of fixed sizes, one behind the other, that mean nothing beyond their type.
local function run(ops, looks)
  local fields, places, sizes, total = {}, {}, {}, 0
  for _, op in ipairs(ops) do
    local field, size = wanted(looks, shown[op.field]), SIZES[op.code % 16]
    if field then
      fields[#fields + 1], places[#places + 1], sizes[#sizes + 1] = field, total, size
    end
    total = total + size
  end
  local count = #fields
  return function(r, position, tree)
    if position + total > r.n then -- one of them does not fit
      for _, op in ipairs(ops) do position = fixed(op, looks)(r, position, tree) end
    end
    local view = r.view
    for i = 1, count do add(tree, fields[i], range(view, position + places[i], sizes[i])) end
    return position + total
  end
end

local function in_run(op, looks)
  if op.code >= ARRAY or not SIZES[op.code % 16] then return false end
  local is_shown = wanted(looks, shown[op.field]) ~= nil
  return not action_of(op.field, is_shown) and not (is_shown and op.code % 16 == UUID)
end

-- Sizes in front --------------------------------------------------------------------------------------------------------

-- The function that reads a length and the position behind it; -1 for null.
local function length(code, narrow, what)
  local compact, nullable = code % 32 >= COMPACT, code % 64 >= NULLABLE
  local function null(r, start, n, position)
    if not nullable then fail(r, start, what .. " is " .. n .. ", where null is not allowed") end
    return -1, position
  end
  if compact then
    return function(r, start)
      local n, position = byte(r.s, start + 1), start + 1
      if position > r.n or n >= 128 then n, position = uvarint(r, start, what) end
      n = n == -2147483648 and 2147483647 or n - 1
      if n < 0 then return null(r, start, n, position) end
      return n, position
    end
  end
  local size, number = narrow and 2 or 4, narrow and int16 or int32
  return function(r, start)
    if start + size > r.n then need(r, start, size, what) end
    local n = number(r.s, start)
    if n < 0 then return null(r, start, n, start + size) end
    return n, start + size
  end
end

local function text(op, looks)
  local read_length = length(op.code, true, "a string's length")
  local field, label, meaning = wanted(looks, shown[op.field]), labels[op.field], meant[op.field]
  local action, secret, config = action_of(op.field, field ~= nil), meaning == "secret", meaning == "config_value"
  return function(r, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(looks, r, op, start, position - start, tree)
      return position
    end
    if n > MAX_STRING then fail(r, start, "a string of " .. n .. " bytes, where " .. MAX_STRING .. " are allowed") end
    if position + n > r.n then need(r, position, n, "a string") end
    if field then
      if n > 0 and (secret or config and r.hides) then
        add(tree, range(r.view, start, position + n - start), label .. ": [redacted]")
      elseif n == 0 then
        add(tree, field, range(r.view, start, position - start), "")
      else
        show_text(field, r, position, n, tree)
      end
    end
    if action then action(r, position, n) end
    return position + n
  end
end

local function blob(op, looks)
  local what = KINDS[op.code % 16]
  local read_length = length(op.code, false, "the length of " .. what)
  local field, label, secret = wanted(looks, shown[op.field]), labels[op.field], meant[op.field] == "secret"
  local content = content_of(op.field)
  if content and not wants_content(looks) then content = nil end
  return function(r, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(looks, r, op, start, position - start, tree)
      return position
    end
    if position + n > r.n then need(r, position, n, what) end
    local item = tree
    if field then
      if n > 0 and secret then
        add(tree, range(r.view, start, position + n - start), ("%s: [redacted], %d bytes"):format(label, n))
      elseif n == 0 then
        add(tree, field, span(r, start, 0))
      else
        item = add(tree, field, range(r.view, position, n))
      end
    end
    if content and n > 0 then read_inside(r, content, position, position + n, item, looks) end
    return position + n
  end
end

local function records(op, looks)
  local read_length = length(op.code, false, "the length of records")
  local field, inside = wanted(looks, shown[op.field]), looks == everything or looks ~= nothing and wants_records(looks)
  return function(r, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(looks, r, op, start, position - start, tree)
      return position
    end
    if position + n > r.n then need(r, position, n, "records") end
    local item = field and add(tree, field, range(r.view, start, position + n - start), n) or tree
    if inside then read_records(r, position, position + n, item, looks) end
    return position + n
  end
end

-- Structs -------------------------------------------------------------------------------------------------------------

-- The tagged fields behind a struct. Those of other versions are refused, as Kafka refuses them.
local function tagged_fields(message, layout, looks)
  local known, foreign = {}, layout.foreign
  for tag, op in pairs(layout.tags) do known[tag] = step_of(message, op, looks) end
  local tag_field, data_field = wanted(looks, own.unknown_tag), wanted(looks, own.unknown_tag_data)
  return function(r, start, tree)
    local count, position = byte(r.s, start + 1), start + 1
    if count == 0 and position <= r.n then return position end
    count, position = uvarint(r, start, "the number of tagged fields")
    if count == 0 then return position end
    if count < 0 or count > MAX_TAGS or count > r.n - position then fail(r, start, count .. " tagged fields") end
    local steps, shows = known, tag_field or data_field
    if looks ~= nothing and not affords(3 * count) then
      too_much(tree, "what is tagged")
      shows, steps = false, {}
      for tag, op in pairs(layout.tags) do steps[tag] = step_of(message, op, nothing) end
    end
    for _ = 1, count do
      local tag, size
      start = position
      tag, position = uvarint(r, position, "a tag")
      size, position = uvarint(r, position, "a tagged field's size")
      if foreign[tag] then fail(r, start, "tag " .. tag .. ", which other versions have") end
      local step = steps[tag]
      if step then
        position = step(r, position, tree)
      else
        if size < 0 then fail(r, start, "a tagged field of " .. size .. " bytes") end
        need(r, position, size, "a tagged field")
        if shows then
          local item = tag_field and add(tree, tag_field, range(r.view, start, position + size - start), tag % 4294967296) or tree
          if data_field and size > 0 then add(item, data_field, range(r.view, position, size)) end
        end
        position = position + size
      end
    end
    return position
  end
end

local function nested(message, op, looks)
  local compact, nullable = op.code % 32 >= COMPACT, op.code % 64 >= NULLABLE
  local field, read = wanted(looks, shown[op.field]), steps_of(message, op.layout, looks)
  return function(r, start, tree)
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
        show_null(looks, r, op, start, position - start, tree)
        return position
      end
    end
    if not field then return read(r, position, tree) end
    local item = add(tree, field, span(r, start, position - start))
    position = read(r, position, item)
    set_len(item, position - start)
    return position
  end
end

-- What elements of an array are called beside their number: their name, where that is what they begin with.
local function summary_of(layout)
  local code = layout.ops[1] and layout.ops[1].code
  if code == INT32 then
    return function(r, position) return ": " .. int32(r.s, position) end
  elseif code == INT64 then
    return function(r, position) return ": " .. int64_text(r.s, position) end
  elseif code == STRING or code == STRING + COMPACT then
    local read_length = length(code, true, "a string's length")
    return function(r, position)
      local n, begin = read_length(r, position)
      local name = readable(sub(r.s, begin + 1, begin + n))
      return name and ": " .. name or ""
    end
  end
  return function() return "" end
end

-- Passes over `n` elements of an array: what is of one size in each takes no steps.
local function pass_over(message, number)
  local layout, read, size = layout_of(message, number), steps_of(message, number, nothing), 0
  for _, op in ipairs(layout.ops) do size = in_run(op, nothing) and size and size + SIZES[op.code % 16] end
  if not size then
    return function(r, position, n)
      for _ = 1, n do
        r.named = nil
        position = read(r, position)
      end
      return position
    end
  elseif not layout.flexible then
    return function(_, position, n) return position + n * size end -- these bytes are present: it is the smallest size
  end
  return function(r, position, n)
    local s, limit = r.s, r.n
    for _ = 1, n do
      local behind = position + size
      if behind < limit and byte(s, behind + 1) == 0 then -- no tagged fields
        position = behind + 1
      else
        position = read(r, position)
      end
    end
    return position
  end
end

local function structs(message, op, looks)
  local read_length, layout = length(op.code, false, "an array's length"), layout_of(message, op.layout)
  local smallest, pass, items = layout.smallest, pass_over(message, op.layout), 2 + #layout.ops
  local field, count_field, label = wanted(looks, shown[op.field]), wanted(looks, counts[op.field]), labels[op.field]
  local read = (field or wants_any(message, op.layout, looks)) and steps_of(message, op.layout, looks)
  local summary = summary_of(layout)
  return function(r, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(looks, r, op, start, position - start, tree)
      return position
    end
    if n * smallest > r.n - position then fail(r, start, "an array of " .. n .. " elements, more than there are bytes for") end
    local view = r.view
    local item = count_field and add(tree, count_field, range(view, start, position - start), n) or tree
    if not read then
      position = pass(r, position, n)
    elseif not affords(n * items) then
      too_much(item, label)
      position = pass(r, position, n)
    else
      for i = 0, n - 1 do
        r.named = nil
        if field then
          local begin = position
          local element = add(item, field, range(view, begin < r.n and begin or r.n - 1, 1))
          position = read(r, begin, element)
          set_len(element, position - begin)
          if looks == everything then set_text(element, label .. "[" .. i .. "]" .. summary(r, begin)) end
        else
          position = read(r, position, item)
        end
      end
    end
    if count_field then set_len(item, position - start) end
    return position
  end
end

local function values(message, op, looks)
  local kind = op.code % 16
  local compact, size = op.code % 32 >= COMPACT, SIZES[kind]
  local smallest = size or compact and 1 or kind == STRING and 2 or 4
  local element = {code = kind + (compact and not size and COMPACT or 0), field = op.field, layout = op.layout}
  local read_length, label = length(op.code, false, "an array's length"), labels[op.field]
  local count_field, read, pass = wanted(looks, counts[op.field]), step_of(message, element, looks), step_of(message, element, nothing)
  local jumps, shows = in_run(element, nothing), looks == everything or wanted(looks, shown[op.field]) ~= nil
  return function(r, start, tree)
    local n, position = read_length(r, start)
    if n < 0 then
      show_null(looks, r, op, start, position - start, tree)
      return position
    end
    if n * smallest > r.n - position then fail(r, start, "an array of " .. n .. " elements, more than there are bytes for") end
    local item = count_field and add(tree, count_field, range(r.view, start, position - start), n) or tree
    local step = shows and read or pass
    if shows and not affords(n) then
      too_much(item, label)
      step = pass
    end
    if step == pass and jumps then
      position = position + n * size
    else
      for _ = 1, n do position = step(r, position, item) end
    end
    if count_field then set_len(item, position - start) end
    return position
  end
end

-- The step of one field.
function step_of(message, op, looks)
  local kind = op.code % 16
  if op.code >= ARRAY then return (kind == STRUCT and structs or values)(message, op, looks) end
  if kind == STRUCT then return nested(message, op, looks) end
  return (SIZES[kind] and fixed or kind == STRING and text or kind == RECORDS and records or blob)(op, looks)
end

-- The steps of a struct, as one.
function steps_of(message, number, looks)
  local layout = layout_of(message, number)
  local found = looks.steps[layout]
  if found then return found end
  if looks ~= nothing and not wants_any(message, number, looks) then
    looks.steps[layout] = steps_of(message, number, nothing)
    return looks.steps[layout]
  end
  local steps, same = {}, {}
  local function end_run()
    if #same > 0 then steps[#steps + 1] = #same == 1 and fixed(same[1], looks) or run(same, looks) end
    same = {}
  end
  for _, op in ipairs(layout.ops) do
    if in_run(op, looks) then
      same[#same + 1] = op
    else
      end_run()
      steps[#steps + 1] = step_of(message, op, looks)
    end
  end
  end_run()
  if layout.flexible then steps[#steps + 1] = tagged_fields(message, layout, looks) end
  local count, first, second = #steps, steps[1], steps[2]
  if count == 0 then
    found = function(_, position) return position end
  elseif count == 1 then
    found = first
  elseif count == 2 then
    found = function(r, position, tree) return second(r, first(r, position, tree), tree) end
  else
    found = function(r, position, tree)
      for i = 1, count do position = steps[i](r, position, tree) end
      return position
    end
  end
  looks.steps[layout] = found
  return found
end
