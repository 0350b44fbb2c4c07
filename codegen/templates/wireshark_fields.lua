-- The protocol, its fields and expert infos. The runtime from here on is written by hand.

local kafkawire = Proto("kafkawire", "Apache Kafka")
kafkawire.prefs.bodies = Pref.bool("Show the bodies of messages", true,
  "Without them a capture is read faster; headers, latencies and errors stay.")
local byte, floor, sub, find = string.byte, math.floor, string.sub, string.find

-- Methods as functions: Wireshark looks a method up by calling a function of its own, each time.
local range, add, add_text, add_expert = TvbRange.range, TreeItem.add, TreeItem.add_packet_field, TreeItem.add_proto_expert_info
local set_len, set_text, append_text, set_generated = TreeItem.set_len, TreeItem.set_text, TreeItem.append_text, TreeItem.set_generated
local referenced = TreeItem.referenced

local MAX_TAGS, MAX_STRING = 10000, 32767
local MOST_SHOWN = 300000 -- items in the tree of one packet; Wireshark itself gives up at a million

local expert = {
  malformed = ProtoExpert.new("kafkawire.malformed", "These bytes are not what Kafka writes",
    expert.group.MALFORMED, expert.severity.ERROR),
  cut = ProtoExpert.new("kafkawire.cut", "The capture does not hold all of it",
    expert.group.UNDECODED, expert.severity.WARN),
  unknown = ProtoExpert.new("kafkawire.unknown", "Not known to this plugin",
    expert.group.UNDECODED, expert.severity.WARN),
  not_decoded = ProtoExpert.new("kafkawire.not_decoded", "What is inside of these bytes is not decoded",
    expert.group.UNDECODED, expert.severity.NOTE),
  left_over = ProtoExpert.new("kafkawire.left_over", "Bytes behind the message, which Kafka passes over",
    expert.group.PROTOCOL, expert.severity.NOTE),
  unmatched = ProtoExpert.new("kafkawire.unmatched", "Its request is not in the capture",
    expert.group.SEQUENCE, expert.severity.NOTE),
  lost = ProtoExpert.new("kafkawire.lost", "No frame begins here",
    expert.group.SEQUENCE, expert.severity.WARN),
  compressed = ProtoExpert.new("kafkawire.compressed", "This Wireshark cannot decompress it",
    expert.group.UNDECODED, expert.severity.NOTE),
  too_much = ProtoExpert.new("kafkawire.too_much", "More than is shown of one packet",
    expert.group.UNDECODED, expert.severity.NOTE),
  error = ProtoExpert.new("kafkawire.error", "An error code",
    expert.group.RESPONSE_CODE, expert.severity.NOTE),
}
kafkawire.experts = expert

-- The runtime's own fields.
local own = {
  size = ProtoField.int32("kafkawire.size", "Size", base.DEC, nil, nil, "int32. Bytes of the frame behind this field."),
  api = ProtoField.string("kafkawire.api", "Api", base.NONE, "The api key's name, of requests and of responses."),
  version = ProtoField.int16("kafkawire.version", "Version", base.DEC, nil, nil, "The version of the body."),
  message = ProtoField.string("kafkawire.message", "Message", base.NONE, "Its name in Kafka's schemas."),
  degree = ProtoField.string("kafkawire.degree", "Decoded", base.NONE,
    "How far the message is decoded: whole; bytes left over; partial; header only."),
  request_in = ProtoField.framenum("kafkawire.request_in", "Request in", base.NONE, frametype.REQUEST),
  response_in = ProtoField.framenum("kafkawire.response_in", "Response in", base.NONE, frametype.RESPONSE),
  latency = ProtoField.relative_time("kafkawire.latency", "Latency", "From the request's packet to this one."),
  errors = ProtoField.string("kafkawire.errors", "Error", base.NONE, "The name of an error code in the response."),
  sasl_token = ProtoField.uint32("kafkawire.sasl_token", "SASL token, not shown", base.DEC, nil, nil, "Its size."),
  undecoded = ProtoField.uint32("kafkawire.undecoded", "Undecoded", base.DEC, nil, nil, "Bytes that were not read."),
  unknown_tag = ProtoField.uint32("kafkawire.unknown_tag", "Unknown tagged field", base.DEC, nil, nil, "Its tag."),
  unknown_tag_data = ProtoField.bytes("kafkawire.unknown_tag.data", "Data", base.NONE, "Its bytes."),
}

-- The fields of the messages as Wireshark's, by number; of arrays the fields of their elements, and their counts. And
-- what they are called, and what is made of them.
local shown, counts, labels, meant = {}, {}, {}, {}
for i, field in ipairs(fields) do
  local filter, label, kind, meaning, about = "kafkawire." .. field[1], field[2], field[3], field[4], field[5]
  if kind:sub(1, 2) == "[]" then
    counts[i] = ProtoField.uint32(filter .. ".count", label, base.DEC, nil, nil, "How many there are.")
    kind = kind:sub(3)
  end
  if kind == "struct" then
    shown[i] = ProtoField.none(filter, label, about)
  elseif kind == "float64" then
    shown[i] = ProtoField.double(filter, label, about)
  elseif kind == "bool" then
    shown[i] = ProtoField.bool(filter, label, base.NONE, nil, nil, about)
  elseif kind == "bytes" then
    shown[i] = ProtoField.bytes(filter, label, base.NONE, about)
  elseif kind == "string" or kind == "uuid" then
    shown[i] = ProtoField.string(filter, label, base.NONE, about)
  else
    local make = kind == "records" and ProtoField.uint32 or ProtoField[kind]
    shown[i] = make(filter, label, base.DEC, numbers[meaning], nil, about)
  end
  labels[i] = label
  if meaning ~= "" then meant[i] = meaning end
end
fields = nil -- Wireshark has them; what Lua holds, its collector goes over again and again
