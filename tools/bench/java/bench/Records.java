package bench;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/** A record set walked as a consumer does: `ensureValid` (the checksum), then a streaming iterator over pooled buffers. */
final class Records implements Job {
    private final ByteBuffer data;
    private final boolean validate;
    private final boolean headers;
    private final BufferSupplier buffers = BufferSupplier.create();

    Records(byte[] data, boolean validate, boolean headers) {
        this.data = ByteBuffer.wrap(data);
        this.validate = validate;
        this.headers = headers;
    }

    @Override
    public Object run() {
        long sum = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data.duplicate()).batches()) {
            if (validate) {
                batch.ensureValid();
            }
            if (headers) {
                sum += batch.lastOffset() + batch.countOrNull();
            } else {
                try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
                    while (records.hasNext()) {
                        sum += records.next().offset();
                    }
                }
            }
        }
        return sum;
    }

    @Override
    public String check() throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        ByteBuffer numbers = ByteBuffer.allocate(16);
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data.duplicate()).batches()) {
            if (headers) {
                digest.update(numbers.clear().putLong(batch.lastOffset()).putLong(batch.countOrNull()).array());
            } else {
                for (Record record : batch) {
                    digest.update(numbers.clear().putLong(record.offset()).putLong(record.timestamp()).array());
                    digest.update(record.key());
                    digest.update(record.value());
                }
            }
        }
        return Main.hex(digest);
    }
}
