package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AbortedTxn;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.TransactionIndex;

/** What a broker's own classes refuse of a log and of the files beside it. Needs a release of 4.4 or later. */
final class Judges {
    private static final HexFormat HEX = HexFormat.of();
    private static final int DAY_MS = 86_400_000;

    private Judges() {
    }

    static void answer(String op, JsonNode question, JsonGenerator out) throws Exception {
        Path folder = Files.createTempDirectory("judged");
        Path file = folder.resolve("00000000000000000000.txnindex");
        try {
            switch (op) {
                case "judge.log" -> log(folder, question, out);
                case "judge.txnindex" -> index(file, question, out);
                case "judge.snapshot" -> {
                    Files.write(file, bytes(question));
                    out.writeNumberField("entries", ProducerStateManager.readSnapshot(file.toFile()).size());
                }
                default -> throw new IllegalArgumentException("no such question: " + op);
            }
        } finally {
            Files.deleteIfExists(file);
            Files.delete(folder);
        }
    }

    /** Each batch as the leader appends it; what it refuses is appended as a follower does, which refuses less. */
    private static void log(Path folder, JsonNode question, JsonGenerator out) throws IOException {
        ProducerStateManager manager = new ProducerStateManager(
            new TopicPartition("topic", 0), folder.toFile(), DAY_MS, new ProducerStateManagerConfig(DAY_MS, false), Time.SYSTEM);
        Set<Long> raised = new HashSet<>();
        question.path("raised").forEach(offset -> raised.add(offset.asLong()));
        long end = 0;
        out.writeArrayFieldStart("refused");
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(question))).batches()) {
            try {
                batch.ensureValid();
                if (batch.hasProducerId()) {
                    short version = (short) (raised.contains(batch.baseOffset()) ? 2 : 0);
                    if (!take(manager, batch, batch.isControlBatch() ? AppendOrigin.COORDINATOR : AppendOrigin.CLIENT, version, out)) {
                        take(manager, batch, AppendOrigin.REPLICATION, (short) 0, out);
                    }
                }
                end = batch.lastOffset() + 1;
                manager.updateMapEndOffset(end);
            } catch (RuntimeException error) {
                refuse(batch, error, AppendOrigin.REPLICATION, out);
            }
        }
        out.writeEndArray();
        long high = question.path("highWatermark").asLong(end);
        manager.onHighWatermarkUpdated(high);
        long unstable = manager.firstUnstableOffset().map(offset -> offset.messageOffset).orElse(high);
        out.writeNumberField("lastStableOffset", Math.min(high, unstable)); // UnifiedLog.fetchLastStableOffsetMetadata
    }

    private static boolean take(
        ProducerStateManager manager, RecordBatch batch, AppendOrigin origin, short version, JsonGenerator out
    ) throws IOException {
        try {
            Optional<ProducerStateEntry> before = manager.lastEntry(batch.producerId());
            if (origin == AppendOrigin.CLIENT && before.isPresent() && duplicate(before.get(), batch)) {
                throw new IllegalStateException("duplicate");
            }
            ProducerAppendInfo info = manager.prepareUpdate(batch.producerId(), origin);
            Optional<CompletedTxn> completed = info.append(batch, Optional.empty(), version);
            manager.update(info);
            completed.ifPresent(manager::completeTxn);
            return true;
        } catch (RuntimeException error) {
            refuse(batch, error, origin, out);
            return false;
        }
    }

    /** As UnifiedLog asks, in whose package the method is. */
    private static boolean duplicate(ProducerStateEntry entry, RecordBatch batch) {
        try {
            Method method = ProducerStateEntry.class.getDeclaredMethod("findDuplicateBatch", RecordBatch.class);
            method.setAccessible(true);
            return ((Optional<?>) method.invoke(entry, batch)).isPresent();
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static void refuse(RecordBatch batch, RuntimeException error, AppendOrigin origin, JsonGenerator out) throws IOException {
        out.writeStartArray();
        out.writeNumber(batch.baseOffset());
        out.writeString(origin.name());
        out.writeString(error.getClass().getSimpleName() + ": " + error.getMessage());
        out.writeEndArray();
    }

    private static void index(Path file, JsonNode question, JsonGenerator out) throws IOException {
        Files.write(file, bytes(question));
        try (TransactionIndex index = new TransactionIndex(question.get("start").asLong(), file.toFile())) {
            index.sanityCheck();
            long before = -1;
            for (AbortedTxn entry : index.allAbortedTxns()) { // in the order that TransactionIndex.append requires
                if (entry.lastOffset() <= before) {
                    throw new IllegalArgumentException("last offset " + entry.lastOffset() + " after " + before);
                }
                before = entry.lastOffset();
            }
        }
    }

    private static byte[] bytes(JsonNode question) {
        return HEX.parseHex(question.get("bytes").asText());
    }
}
