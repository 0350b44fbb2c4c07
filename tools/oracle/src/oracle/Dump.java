package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * A value as JSON that loses nothing: numbers as they are, float64 as the hex of its bits, bytes, records and uuids in
 * hex, unknown tagged fields as `_unknownTaggedFields`: [[tag, hex], ...]. The fields of one version, tagged ones always;
 * version -1 means all fields.
 */
final class Dump {
    private static final HexFormat HEX = HexFormat.of();

    private final JsonGenerator out;
    private final int version;

    Dump(JsonGenerator out, int version) {
        this.out = out;
        this.version = version;
    }

    void struct(Struct struct, Object value) throws IOException, ReflectiveOperationException {
        out.writeStartObject();
        for (Field field : struct.fields) {
            if (version < 0 || field.versions.has(version)) {
                out.writeFieldName(field.name);
                field(field, field.get(value));
            }
        }
        List<RawTaggedField> tags = Kafka.unknownTags(value);
        if (!tags.isEmpty()) {
            out.writeArrayFieldStart("_unknownTaggedFields");
            for (RawTaggedField tag : tags) {
                out.writeStartArray();
                out.writeNumber(tag.tag());
                out.writeString(HEX.formatHex(tag.data()));
                out.writeEndArray();
            }
            out.writeEndArray();
        }
        out.writeEndObject();
    }

    private void field(Field field, Object value) throws IOException, ReflectiveOperationException {
        if (value == null) {
            out.writeNull();
        } else if (field.array) {
            out.writeStartArray();
            for (Object item : (Collection<?>) value) {
                item(field, item);
            }
            out.writeEndArray();
        } else {
            item(field, value);
        }
    }

    private void item(Field field, Object value) throws IOException, ReflectiveOperationException {
        if (field.struct != null) {
            struct(field.struct, value);
            return;
        }
        switch (field.type) {
            case "bool" -> out.writeBoolean((Boolean) value);
            case "float64" -> out.writeString(String.format("%016x", Double.doubleToRawLongBits((Double) value)));
            case "string" -> out.writeString((String) value);
            case "uuid" -> out.writeString(Kafka.uuidHex(value));
            case "bytes", "records" -> out.writeString(HEX.formatHex(Kafka.bytes(value)));
            default -> out.writeNumber(((Number) value).longValue());
        }
    }
}
