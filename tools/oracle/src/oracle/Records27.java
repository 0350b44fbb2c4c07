package oracle;

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.channels.GatheringByteChannel;
import java.util.function.Consumer;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;

/** 2.7 alone reads and writes records by other classes than ByteBufferAccessor: RecordsReadable and RecordsWritable. */
final class Records27 {
    private static final Constructor<?> READABLE = constructor("RecordsReadable", ByteBuffer.class);
    private static final Constructor<?> WRITABLE = constructor("RecordsWritable", String.class, int.class, Consumer.class);

    private Records27() {
    }

    static boolean present() {
        return READABLE != null;
    }

    static Readable reader(ByteBuffer buffer) throws ReflectiveOperationException {
        return (Readable) READABLE.newInstance(buffer);
    }

    static byte[] write(Message message, ObjectSerializationCache cache, int size, short version)
        throws ReflectiveOperationException {
        Collector collector = new Collector();
        Writable writable = (Writable) WRITABLE.newInstance("", size, collector);
        message.write(writable, cache, version);
        writable.getClass().getMethod("flush").invoke(writable);
        return collector.bytes.toByteArray();
    }

    private static Constructor<?> constructor(String name, Class<?>... parameters) {
        try {
            return Class.forName("org.apache.kafka.common.protocol." + name).getConstructor(parameters);
        } catch (ReflectiveOperationException otherReleases) {
            return null;
        }
    }

    /** Takes sends, as a connection would, and keeps their bytes. */
    private static final class Collector implements Consumer<Object>, GatheringByteChannel {
        private static final Class<?> SEND = org.apache.kafka.common.network.Send.class;

        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public void accept(Object send) {
            try {
                // By reflection: the signature of Send.writeTo is another one today.
                Method completed = SEND.getMethod("completed");
                Method writeTo = SEND.getMethod("writeTo", GatheringByteChannel.class);
                while (!(boolean) completed.invoke(send)) {
                    writeTo.invoke(send, this);
                }
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public int write(ByteBuffer source) {
            byte[] out = new byte[source.remaining()];
            source.get(out);
            bytes.writeBytes(out);
            return out.length;
        }

        @Override
        public long write(ByteBuffer[] sources, int offset, int length) {
            long written = 0;
            for (int i = offset; i < offset + length; i++) {
                written += write(sources[i]);
            }
            return written;
        }

        @Override
        public long write(ByteBuffer[] sources) {
            return write(sources, 0, sources.length);
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {
        }
    }
}
