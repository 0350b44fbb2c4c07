package oracle;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/** What differs from release to release: the classes of uuids and records, and of bytes. */
final class Kafka {
    private static final Method READABLE_RECORDS = readableRecords();

    private Kafka() {
    }

    static Object uuid(Class<?> type, long high, long low) throws ReflectiveOperationException {
        return type.getConstructor(long.class, long.class).newInstance(high, low); // java.util.UUID until 2.7, then Uuid
    }

    static String uuidHex(Object uuid) throws ReflectiveOperationException {
        long high = (long) uuid.getClass().getMethod("getMostSignificantBits").invoke(uuid);
        long low = (long) uuid.getClass().getMethod("getLeastSignificantBits").invoke(uuid);
        return String.format("%016x%016x", high, low);
    }

    /** A `bytes` or `records` value of the type that the generated class keeps it in. */
    static Object bytes(Class<?> type, byte[] data) throws ReflectiveOperationException {
        if (type == byte[].class) {
            return data;
        }
        ByteBuffer buffer = ByteBuffer.wrap(data);
        return type == ByteBuffer.class ? buffer : READABLE_RECORDS.invoke(null, buffer);
    }

    static byte[] bytes(Object value) throws ReflectiveOperationException {
        if (value instanceof byte[] array) {
            return array;
        }
        Object buffer = value instanceof ByteBuffer ? value : value.getClass().getMethod("buffer").invoke(value);
        ByteBuffer view = ((ByteBuffer) buffer).duplicate();
        byte[] out = new byte[view.remaining()];
        view.get(out);
        return out;
    }

    @SuppressWarnings("unchecked")
    static Collection<Object> collection(Class<?> type) throws ReflectiveOperationException {
        if (type.isInterface()) {
            return new java.util.ArrayList<>();
        }
        return (Collection<Object>) type.getConstructor().newInstance(); // the implicit hash collection of a map key
    }

    @SuppressWarnings("unchecked")
    static List<RawTaggedField> unknownTags(Object struct) {
        return ((org.apache.kafka.common.protocol.Message) struct).unknownTaggedFields();
    }

    private static Method readableRecords() {
        for (String where : List.of("org.apache.kafka.common.record", "org.apache.kafka.common.record.internal")) {
            try {
                return Class.forName(where + ".MemoryRecords").getMethod("readableRecords", ByteBuffer.class);
            } catch (ReflectiveOperationException elsewhere) {
                continue;
            }
        }
        throw new IllegalStateException("no MemoryRecords class in this release");
    }
}
