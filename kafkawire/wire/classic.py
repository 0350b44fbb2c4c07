"""Readers and writers of classic versions, in which lengths are int16 (strings) and int32. `flexible` defines the same
names."""

from __future__ import annotations

from kafkawire.wire import read, write

read_string = read.read_string
read_nullable_string = read.read_nullable_string
read_bytes = read.read_bytes
read_nullable_bytes = read.read_nullable_bytes
read_array = read.read_array
read_nullable_array = read.read_nullable_array
read_bools = read.read_bools
read_nullable_bools = read.read_nullable_bools
read_int8s = read.read_int8s
read_nullable_int8s = read.read_nullable_int8s
read_int16s = read.read_int16s
read_nullable_int16s = read.read_nullable_int16s
read_int32s = read.read_int32s
read_nullable_int32s = read.read_nullable_int32s
read_int64s = read.read_int64s
read_nullable_int64s = read.read_nullable_int64s
read_uint16s = read.read_uint16s
read_nullable_uint16s = read.read_nullable_uint16s
read_uint32s = read.read_uint32s
read_nullable_uint32s = read.read_nullable_uint32s
read_float64s = read.read_float64s
read_nullable_float64s = read.read_nullable_float64s
read_uuids = read.read_uuids
read_nullable_uuids = read.read_nullable_uuids
read_strings = read.read_strings
read_nullable_strings = read.read_nullable_strings
read_blobs = read.read_blobs
read_nullable_blobs = read.read_nullable_blobs

write_string = write.write_string
write_nullable_string = write.write_nullable_string
write_bytes = write.write_bytes
write_nullable_bytes = write.write_nullable_bytes
write_array = write.write_array
write_nullable_array = write.write_nullable_array
write_bools = write.write_bools
write_nullable_bools = write.write_nullable_bools
write_int8s = write.write_int8s
write_nullable_int8s = write.write_nullable_int8s
write_int16s = write.write_int16s
write_nullable_int16s = write.write_nullable_int16s
write_int32s = write.write_int32s
write_nullable_int32s = write.write_nullable_int32s
write_int64s = write.write_int64s
write_nullable_int64s = write.write_nullable_int64s
write_uint16s = write.write_uint16s
write_nullable_uint16s = write.write_nullable_uint16s
write_uint32s = write.write_uint32s
write_nullable_uint32s = write.write_nullable_uint32s
write_float64s = write.write_float64s
write_nullable_float64s = write.write_nullable_float64s
write_uuids = write.write_uuids
write_nullable_uuids = write.write_nullable_uuids
write_strings = write.write_strings
write_nullable_strings = write.write_nullable_strings
write_blobs = write.write_blobs
write_nullable_blobs = write.write_nullable_blobs
