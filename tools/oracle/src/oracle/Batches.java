package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.compress.Lz4BlockOutputStream;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/** Record batches of every magic, written and read by Kafka's own classes. Needs a release of 4.4 or later. */
final class Batches {
    private static final HexFormat HEX = HexFormat.of();

    private Batches() {
    }

    static void answer(String op, JsonNode question, JsonGenerator out) throws Exception {
        switch (op) {
            case "batches.write" -> out.writeStringField("bytes", hex(write(question)));
            case "batches.control" -> out.writeStringField("bytes", hex(control(question).buffer()));
            case "batches.read" -> read(ByteBuffer.wrap(bytes(question, "bytes")), out);
            case "compress" -> out.writeStringField("bytes", HEX.formatHex(compress(question)));
            case "decompress" -> out.writeStringField("bytes", HEX.formatHex(decompress(question)));
            default -> throw new IllegalArgumentException("no such question: " + op);
        }
    }

    private static ByteBuffer write(JsonNode question) {
        boolean stamped = question.path("appendTime").isNumber();
        ByteBufferOutputStream buffer = new ByteBufferOutputStream(1 << 12);
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                buffer,
                (byte) question.path("magic").asInt(2),
                codec(question),
                stamped ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                question.path("baseOffset").asLong(),
                stamped ? question.path("appendTime").asLong() : RecordBatch.NO_TIMESTAMP,
                question.path("producerId").asLong(-1),
                (short) question.path("producerEpoch").asInt(-1),
                question.path("baseSequence").asInt(-1),
                question.path("transactional").asBoolean(),
                question.path("control").asBoolean(),
                question.path("leaderEpoch").asInt(-1),
                Integer.MAX_VALUE,
                question.path("deleteHorizon").asLong(RecordBatch.NO_TIMESTAMP))) {
            for (JsonNode record : question.get("records")) {
                append(builder, record, question.path("control").asBoolean());
            }
            if (question.path("lastOffset").isNumber()) {
                builder.overrideLastOffset(question.get("lastOffset").asLong());
            }
            return builder.build().buffer();
        }
    }

    private static void append(MemoryRecordsBuilder builder, JsonNode record, boolean control) {
        JsonNode headers = record.path("headers");
        Header[] made = new Header[headers.size()];
        for (int i = 0; i < made.length; i++) {
            made[i] = new RecordHeader(headers.get(i).get(0).asText(), bytes(headers.get(i).get(1)));
        }
        long offset = record.get("offset").asLong();
        long timestamp = record.get("timestamp").asLong();
        if (control) {
            builder.appendControlRecordWithOffset(offset, new org.apache.kafka.common.record.internal.SimpleRecord(
                    timestamp, bytes(record.get("key")), bytes(record.get("value"))));
        } else {
            builder.appendWithOffset(offset, timestamp, bytes(record.get("key")), bytes(record.get("value")), made);
        }
    }

    /** A control batch of a kind, its message given as bytes. */
    private static MemoryRecords control(JsonNode question) {
        String kind = question.get("kind").asText();
        long offset = question.path("offset").asLong();
        long timestamp = question.path("timestamp").asLong();
        int epoch = question.path("leaderEpoch").asInt(-1);
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        if (kind.equals("COMMIT") || kind.equals("ABORT")) {
            return MemoryRecords.withEndTransactionMarker(
                    offset, timestamp, epoch, question.get("producerId").asLong(),
                    (short) question.get("producerEpoch").asInt(),
                    new EndTransactionMarker(ControlRecordType.valueOf(kind), question.get("coordinatorEpoch").asInt()));
        }
        ByteBufferAccessor message = new ByteBufferAccessor(ByteBuffer.wrap(bytes(question, "message")));
        short version = (short) question.path("version").asInt();
        return switch (kind) {
            case "LEADER_CHANGE" ->
                MemoryRecords.withLeaderChangeMessage(offset, timestamp, epoch, buffer, new LeaderChangeMessage(message, version));
            case "SNAPSHOT_HEADER" ->
                MemoryRecords.withSnapshotHeaderRecord(offset, timestamp, epoch, buffer, new SnapshotHeaderRecord(message, version));
            case "SNAPSHOT_FOOTER" ->
                MemoryRecords.withSnapshotFooterRecord(offset, timestamp, epoch, buffer, new SnapshotFooterRecord(message, version));
            case "KRAFT_VERSION" ->
                MemoryRecords.withKRaftVersionRecord(offset, timestamp, epoch, buffer, new KRaftVersionRecord(message, version));
            case "KRAFT_VOTERS" ->
                MemoryRecords.withVotersRecord(offset, timestamp, epoch, buffer, new VotersRecord(message, version));
            default -> throw new IllegalArgumentException("no such control record: " + kind);
        };
    }

    private static void read(ByteBuffer buffer, JsonGenerator out) throws IOException {
        out.writeArrayFieldStart("batches");
        Throwable stopped = null;
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
                out.writeStartObject();
                try {
                    batch.ensureValid();
                    describe(batch, out);
                } catch (RuntimeException error) {
                    failure(out, "error", error);
                }
                out.writeEndObject();
            }
        } catch (RuntimeException error) {
            stopped = error;
        }
        out.writeEndArray();
        if (stopped != null) {
            failure(out, "stopped", stopped);
        }
    }

    private static void describe(RecordBatch batch, JsonGenerator out) throws IOException {
        out.writeNumberField("size", batch.sizeInBytes());
        out.writeNumberField("magic", batch.magic());
        out.writeNumberField("crc", batch.checksum());
        out.writeNumberField("last_offset", batch.lastOffset());
        out.writeNumberField("max_timestamp", batch.maxTimestamp());
        out.writeStringField("timestamp_type", batch.timestampType().name);
        out.writeNumberField("producer_id", batch.producerId());
        out.writeNumberField("producer_epoch", batch.producerEpoch());
        out.writeNumberField("base_sequence", batch.baseSequence());
        out.writeNumberField("last_sequence", batch.lastSequence());
        out.writeNumberField("partition_leader_epoch", batch.partitionLeaderEpoch());
        out.writeBooleanField("transactional", batch.isTransactional());
        out.writeBooleanField("is_control", batch.isControlBatch());
        if (batch.deleteHorizonMs().isPresent()) {
            out.writeNumberField("delete_horizon", batch.deleteHorizonMs().getAsLong());
        } else {
            out.writeNullField("delete_horizon");
        }
        Throwable broken = null;
        out.writeArrayFieldStart("records");
        try {
            for (Record record : batch) {
                // As consumers do; of magic 2 the batch's checksum is the only one.
                record.ensureValid();
                // All of it before anything is written: what throws is no record.
                ByteBuffer key = record.key();
                ByteBuffer value = record.value();
                Header[] headers = record.headers();
                for (Header header : headers) {
                    header.key();
                }
                describe(batch, record, key, value, headers, out);
            }
        } catch (RuntimeException error) {
            broken = error;
        }
        out.writeEndArray();
        if (broken != null) {
            failure(out, "recordsError", broken);
            return;
        }
        out.writeStringField("codec", batch.compressionType().name);
        out.writeNumberField("base_offset", batch.baseOffset());
        if (batch.isControlBatch()) {
            try {
                control(batch, out);
            } catch (RuntimeException error) {
                failure(out, "controlError", error);
            }
        }
    }

    private static void describe(
            RecordBatch batch, Record record, ByteBuffer key, ByteBuffer value, Header[] headers, JsonGenerator out
    ) throws IOException {
        out.writeStartObject();
        out.writeNumberField("offset", record.offset());
        out.writeNumberField("timestamp", record.timestamp());
        out.writeNumberField("sequence", record.sequence());
        out.writeStringField("key", hex(key));
        out.writeStringField("value", hex(value));
        out.writeArrayFieldStart("headers");
        for (Header header : headers) {
            out.writeStartArray();
            out.writeString(header.key());
            out.writeString(header.value() == null ? null : HEX.formatHex(header.value()));
            out.writeEndArray();
        }
        out.writeEndArray();
        out.writeEndObject();
    }

    /** What Kafka makes of the (first) control record. */
    private static void control(RecordBatch batch, JsonGenerator out) throws IOException {
        for (Record record : batch) {
            ControlRecordType type = ControlRecordType.parse(record.key());
            out.writeStringField("control", type.name());
            String text = switch (type) {
                case COMMIT, ABORT -> String.valueOf(EndTransactionMarker.deserialize(record).coordinatorEpoch());
                case LEADER_CHANGE -> ControlRecordUtils.deserializeLeaderChangeMessage(record).toString();
                case SNAPSHOT_HEADER -> ControlRecordUtils.deserializeSnapshotHeaderRecord(record).toString();
                case SNAPSHOT_FOOTER -> ControlRecordUtils.deserializeSnapshotFooterRecord(record).toString();
                case KRAFT_VERSION -> ControlRecordUtils.deserializeKRaftVersionRecord(record).toString();
                case KRAFT_VOTERS -> ControlRecordUtils.deserializeVotersRecord(record).toString();
                default -> "";
            };
            out.writeStringField("controlValue", text);
            return;
        }
    }

    private static byte[] compress(JsonNode question) throws IOException {
        byte[] data = bytes(question, "bytes");
        ByteBufferOutputStream buffer = new ByteBufferOutputStream(1 << 12);
        byte magic = (byte) question.path("magic").asInt(2);
        boolean checked = question.path("blockChecksums").asBoolean();
        int block = question.path("blockSize").asInt(Lz4BlockOutputStream.BLOCKSIZE_64KB);
        try (OutputStream stream = checked
                ? new Lz4BlockOutputStream(buffer, block, 1, true, magic == 0)
                : codec(question).wrapForOutput(buffer, magic)) {
            int step = question.path("step").asInt(data.length + 1);
            for (int at = 0; at < data.length; at += step) {
                stream.write(data, at, Math.min(step, data.length - at));
                if (question.path("flush").asBoolean()) {
                    stream.flush();
                }
            }
        }
        ByteBuffer done = buffer.buffer();
        done.flip();
        byte[] made = new byte[done.remaining()];
        done.get(made);
        return made;
    }

    private static byte[] decompress(JsonNode question) throws IOException {
        ByteBuffer data = ByteBuffer.wrap(bytes(question, "bytes"));
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        try (InputStream stream = codec(question).wrapForInput(
                data, (byte) question.path("magic").asInt(2), BufferSupplier.NO_CACHING)) {
            byte[] part = new byte[1 << 14];
            for (int n = stream.read(part); n >= 0; n = stream.read(part)) {
                all.write(part, 0, n);
            }
        }
        return all.toByteArray();
    }

    private static Compression codec(JsonNode question) {
        return Compression.of(question.path("codec").asText("none")).build();
    }

    private static byte[] bytes(JsonNode question, String name) {
        return HEX.parseHex(question.get(name).asText());
    }

    private static byte[] bytes(JsonNode value) {
        return value == null || value.isNull() ? null : HEX.parseHex(value.asText());
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return HEX.formatHex(data);
    }

    private static void failure(JsonGenerator out, String name, Throwable error) throws IOException {
        out.writeStringField(name, error.getClass().getSimpleName() + ": " + error.getMessage());
    }
}
