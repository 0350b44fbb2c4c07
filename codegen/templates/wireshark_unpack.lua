-- Compressed batches: Wireshark's own functions for gzip and zstd, where a version has them; snappy and LZ4 read here, for
-- no version has a function for LZ4 or for the framing that Kafka's clients put around snappy.

local decompressed

do -- Lua allows 200 local names of one block
  local MOST_UNPACKED = 4 * 1024 * 1024 -- bytes of a batch that are unpacked here, each as a Lua number
  local MOST_DECOMPRESSED = 64 * 1024 * 1024
  local LZ4_MAGIC, XERIAL_MAGIC, XERIAL_HEADER = "\4\34\77\24", "\130SNAPPY\0", 16

  local function byte_at(r, position, limit)
    if position >= limit then fail(r, position, "compressed records end early") end
    return byte(r.s, position + 1)
  end

  local function little_endian(r, position, size, limit)
    local n = 0
    for i = size - 1, 0, -1 do n = n * 256 + byte_at(r, position + i, limit) end
    return n
  end

  -- Appends `size` bytes of the input, or of the output from `distance` before its end on.
  local function append_input(r, position, size, limit, out)
    if size > limit - position then fail(r, position, "compressed records end early") end
    local s, n = r.s, out.n
    for i = 1, size do out[n + i] = byte(s, position + i) end
    out.n = n + size
    return position + size
  end

  local function append_output(r, position, distance, size, out)
    local n = out.n
    if distance == 0 or distance > n then fail(r, position, "compressed records refer to what is before them") end
    for i = n + 1, n + size do out[i] = out[i - distance] end
    out.n = n + size
  end

  -- One block of LZ4: literals and copies in turn. False where it is more than is unpacked.
  local function lz4_block(r, position, limit, out)
    local function size_from(size)
      local more = size == 15
      while more do
        local b = byte_at(r, position, limit)
        position, size, more = position + 1, size + b, b == 255
      end
      return size
    end
    while position < limit do
      local token = byte_at(r, position, limit)
      position = position + 1
      local literals = size_from(floor(token / 16))
      position = append_input(r, position, literals, limit, out)
      if position == limit then return true end
      local distance = little_endian(r, position, 2, limit)
      position = position + 2
      local size = size_from(token % 16) + 4
      if out.n + size > MOST_UNPACKED then return false end
      append_output(r, position, distance, size, out)
    end
    return true
  end

  -- The frame around LZ4's blocks. Checksums are passed over.
  local function lz4(r, position, limit, out)
    if sub(r.s, position + 1, position + 4) ~= LZ4_MAGIC then fail(r, position, "no frame of LZ4") end
    local flags = byte_at(r, position + 4, limit)
    position = position + 7 + (floor(flags / 8) % 2 == 1 and 8 or 0) + (flags % 2 == 1 and 4 or 0)
    while true do
      local size = little_endian(r, position, 4, limit)
      position = position + 4
      if size == 0 then return true end -- the end mark
      local plain = size >= 2147483648
      size = size % 2147483648
      if size > limit - position then fail(r, position, "a block of " .. size .. " bytes") end
      if plain then
        append_input(r, position, size, limit, out)
      elseif not lz4_block(r, position, position + size, out) then
        return false
      end
      position = position + size + (floor(flags / 16) % 2 == 1 and 4 or 0)
    end
  end

  -- One block of snappy: its size, then literals and copies as they come.
  local function snappy_block(r, position, limit, out)
    local size
    size, position = uvarint({s = r.s, n = limit, cut = r.cut}, position, "the size of a block of snappy")
    if size < 0 or out.n + size > MOST_UNPACKED then return false end
    local behind = out.n + size
    while position < limit do
      local tag = byte_at(r, position, limit)
      local kind, n = tag % 4, floor(tag / 4)
      position = position + 1
      local distance
      if kind == 0 then
        if n >= 60 then
          local bytes = n - 59
          n = little_endian(r, position, bytes, limit)
          position = position + bytes
        end
        n = n + 1
      elseif kind == 1 then
        n, distance = n % 8 + 4, floor(tag / 32) * 256 + byte_at(r, position, limit)
        position = position + 1
      else
        n, distance = n + 1, little_endian(r, position, kind == 2 and 2 or 4, limit)
        position = position + (kind == 2 and 2 or 4)
      end
      if out.n + n > behind then fail(r, position, "a block of snappy holds more than its length") end
      if distance then
        append_output(r, position, distance, n, out)
      else
        position = append_input(r, position, n, limit, out)
      end
    end
    if out.n ~= behind then fail(r, position, "a block of snappy holds less than its length") end
    return true
  end

  -- Snappy, as it is or in the chunks of the Java library (xerial).
  local function snappy(r, position, limit, out)
    if sub(r.s, position + 1, position + 8) ~= XERIAL_MAGIC then return snappy_block(r, position, limit, out) end
    while position < limit do
      if sub(r.s, position + 1, position + 8) == XERIAL_MAGIC then -- streams may be joined
        position = position + XERIAL_HEADER
      else
        if limit - position < 4 then fail(r, position, "compressed records end early") end
        local size = uint32(r.s, position)
        position = position + 4
        if size > limit - position then fail(r, position, "a chunk of " .. size .. " bytes") end
        if not snappy_block(r, position, position + size, out) then return false end
        position = position + size
      end
    end
    return true
  end

  local OURS = {lz4 = lz4, snappy = snappy}

  -- Wireshark's functions: those that a version does not have are errors to ask for.
  local THEIRS = {gzip = {"uncompress_zlib", "uncompress"}, zstd = {"uncompress_zstd"}}

  local function unpacked_here(r, unpack, position, limit)
    if limit - position > MOST_UNPACKED then return nil end
    local out = {n = 0}
    if not unpack(r, position, limit, out) or out.n == 0 or out.n > MOST_UNPACKED then return nil end
    local texts = {}
    for i = 1, out.n, 4096 do texts[#texts + 1] = string.char(table.unpack(out, i, math.min(i + 4095, out.n))) end
    return ByteArray.new(table.concat(texts), true):tvb("Decompressed records"):range()
  end

  local function unpacked_there(r, codec, position, limit)
    local packed, unpack = range(r.view, position, limit - position), nil
    for _, name in ipairs(THEIRS[codec] or {}) do
      local found, method = pcall(function() return packed[name] end)
      unpack = unpack or found and method or nil
    end
    if not unpack then return nil end
    if codec == "gzip" then -- its last four bytes are its unpacked size
      if limit - position < 18 or limit - position > MOST_DECOMPRESSED / 4 then return nil end
      if little_endian(r, limit - 4, 4, limit) > MOST_DECOMPRESSED then return nil end
    end
    local done, view = pcall(unpack, packed, "Decompressed records")
    return done and view or nil
  end

  -- The decompressed records of a batch as a reader; nil where this Wireshark cannot, or where they are too many.
  function decompressed(r, codec, position, limit)
    local view
    if OURS[codec] then
      view = unpacked_here(r, OURS[codec], position, limit)
    else
      view = unpacked_there(r, codec, position, limit)
    end
    if not view then return nil end
    return {s = view:raw(), view = view, n = view:len(), topic = r.topic, looks = r.looks}
  end
end
