package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/** A broker's own ProducerStateManager, which takes a log's batches as recovery does. Needs a release of 4.4 or later. */
final class Producers {
    private static final HexFormat HEX = HexFormat.of();
    private static final int DAY_MS = 86_400_000;

    private Producers() {
    }

    static void answer(JsonNode question, JsonGenerator out) throws Exception {
        Path folder = Files.createTempDirectory("producers");
        try {
            ProducerStateManager manager = new ProducerStateManager(
                new TopicPartition("topic", 0), folder.toFile(), DAY_MS, new ProducerStateManagerConfig(DAY_MS, false), Time.SYSTEM);
            MemoryRecords records =
                MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(question.get("bytes").asText())));
            out.writeArrayFieldStart("completed");
            for (RecordBatch batch : records.batches()) {
                append(manager, batch, out);
            }
            out.writeEndArray();
            manager.onHighWatermarkUpdated(question.get("highWatermark").asLong());
            out.writeNumberField("firstUnstableOffset", manager.firstUnstableOffset().map(o -> o.messageOffset).orElse(-1L));
            out.writeNumberField("firstUndecidedOffset", manager.firstUndecidedOffset().orElse(-1L));
            Path snapshot = folder.resolve("snapshot");
            ProducerStateManager.writeSnapshot(snapshot.toFile(), manager.activeProducers(), false);
            out.writeStringField("snapshot", HEX.formatHex(Files.readAllBytes(snapshot)));
        } finally {
            try (Stream<Path> files = Files.list(folder)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
            Files.delete(folder);
        }
    }

    /** As LogSegment.recover does it. */
    private static void append(ProducerStateManager manager, RecordBatch batch, JsonGenerator out) throws Exception {
        if (batch.hasProducerId()) {
            ProducerAppendInfo info = manager.prepareUpdate(batch.producerId(), AppendOrigin.REPLICATION);
            Optional<CompletedTxn> completed = info.append(batch, Optional.empty());
            manager.update(info);
            if (completed.isPresent()) {
                CompletedTxn txn = completed.get();
                out.writeStartArray();
                out.writeNumber(txn.producerId());
                out.writeNumber(txn.firstOffset());
                out.writeNumber(txn.lastOffset());
                out.writeBoolean(txn.isAborted());
                out.writeEndArray();
                manager.completeTxn(txn);
            }
        }
        manager.updateMapEndOffset(batch.lastOffset() + 1);
    }
}
