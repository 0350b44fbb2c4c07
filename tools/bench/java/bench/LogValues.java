package bench;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

/** Many values of `__transaction_state`, each read into an object. `ends` holds the end of each as int32. */
final class LogValues implements Job {
    private final ByteBuffer[] values;

    LogValues(byte[] data, byte[] ends) {
        ByteBuffer numbers = ByteBuffer.wrap(ends);
        values = new ByteBuffer[ends.length / 4];
        int start = 0;
        for (int i = 0; i < values.length; i++) {
            int end = numbers.getInt();
            values[i] = ByteBuffer.wrap(data, start, end - start).slice();
            start = end;
        }
    }

    @Override
    public Object run() {
        long sum = 0;
        for (ByteBuffer value : values) {
            TransactionLogValue decoded =
                new TransactionLogValue(new ByteBufferAccessor(value.duplicate()), (short) 1);
            Main.sink = decoded;
            sum += decoded.producerId();
        }
        return sum;
    }

    @Override
    public String check() throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        ByteBuffer numbers = ByteBuffer.allocate(16);
        for (ByteBuffer value : values) {
            TransactionLogValue decoded =
                new TransactionLogValue(new ByteBufferAccessor(value.duplicate()), (short) 1);
            digest.update(
                numbers.clear().putLong(decoded.producerId()).putLong(decoded.transactionLastUpdateTimestampMs()).array());
            for (TransactionLogValue.PartitionsSchema topic : decoded.transactionPartitions()) {
                digest.update(topic.topic().getBytes("UTF-8"));
                for (int partition : topic.partitionIds()) {
                    digest.update(numbers.clear().putLong(partition).putLong(0).array());
                }
            }
        }
        return Main.hex(digest);
    }
}
