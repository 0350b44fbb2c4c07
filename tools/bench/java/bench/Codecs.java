package bench;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.DescribeProducersResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.SendBuilder;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

/** One message: read into Kafka's generated classes, and written as Kafka writes it. */
final class Codecs {
    private interface Reader {
        Message read(Readable readable, short version);
    }

    private Codecs() {
    }

    static Job job(String operation, String name, short version, byte[] data) throws Exception {
        Reader reader = reader(name);
        Message message = reader.read(accessor(data), version);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        digest.update(MessageUtil.toByteBufferAccessor(message, version).buffer());
        String check = Main.hex(digest);
        return switch (operation) {
            case "decode" -> new Case(check) {
                @Override
                public Object run() {
                    return reader.read(accessor(data), version);
                }
            };
            case "encode" -> new Case(check) {
                @Override
                public Object run() {
                    return MessageUtil.toByteBufferAccessor(message, version).buffer();
                }
            };
            default -> send(check, name, message, version);
        };
    }

    /** What the broker and the producer do with records: gathered from where they lie, behind a small header. */
    private static Job send(String check, String name, Message message, short version) {
        if (name.endsWith("Response")) {
            ResponseHeader header = new ResponseHeader(new ResponseHeaderData(), (short) 1);
            return new Case(check) {
                @Override
                public Object run() {
                    return SendBuilder.buildResponseSend(header, message, version);
                }
            };
        }
        RequestHeader header =
            new RequestHeader(new RequestHeaderData().setRequestApiVersion(version).setClientId("c"), (short) 2);
        return new Case(check) {
            @Override
            public Object run() {
                return SendBuilder.buildRequestSend(header, message);
            }
        };
    }

    private static ByteBufferAccessor accessor(byte[] data) {
        return new ByteBufferAccessor(ByteBuffer.wrap(data));
    }

    private static Reader reader(String name) {
        return switch (name) {
            case "DescribeProducersResponse" -> DescribeProducersResponseData::new;
            case "MetadataResponse" -> MetadataResponseData::new;
            case "FetchResponse" -> FetchResponseData::new;
            case "ProduceRequest" -> ProduceRequestData::new;
            case "ApiVersionsResponse" -> ApiVersionsResponseData::new;
            case "TransactionLogValue" -> TransactionLogValue::new;
            default -> throw new IllegalArgumentException("no reader of " + name);
        };
    }

    private abstract static class Case implements Job {
        private final String check;

        Case(String check) {
            this.check = check;
        }

        @Override
        public String check() {
            return check;
        }
    }
}
