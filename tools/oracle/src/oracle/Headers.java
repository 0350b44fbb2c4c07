package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.types.Schema;

/** Which header precedes each request and response, as ApiMessageType has it. */
final class Headers {
    private Headers() {
    }

    static void write(JsonGenerator out) throws IOException {
        out.writeArrayFieldStart("headers");
        for (ApiMessageType type : ApiMessageType.values()) {
            Schema[] requests = type.requestSchemas();
            Schema[] responses = type.responseSchemas();
            for (int version = 0; requests != null && version < requests.length; version++) {
                if (requests[version] == null || responses[version] == null) {
                    continue; // dropped by 4.0
                }
                out.writeStartObject();
                out.writeNumberField("apiKey", type.apiKey());
                out.writeNumberField("version", version);
                out.writeNumberField("request", type.requestHeaderVersion((short) version));
                out.writeNumberField("response", type.responseHeaderVersion((short) version));
                out.writeEndObject();
            }
        }
        out.writeEndArray();
    }
}
