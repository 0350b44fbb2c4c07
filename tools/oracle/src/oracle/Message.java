package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** A message of the release: its schema, its generated class, and that class's JSON converter where there is one. */
final class Message {
    final String name;
    final String kind;
    final int apiKey; // -1: none
    final Versions valid;
    final Versions flexible;
    final Struct root;
    private final Map<String, Struct> structs = new HashMap<>();
    private final Map<String, JsonNode> common = new HashMap<>();
    private final Class<?> type;
    private Method toJson;
    private Method fromJson;

    Message(JsonNode json, Class<?> type) throws ReflectiveOperationException {
        this.type = type;
        name = json.get("name").asText();
        kind = json.get("type").asText();
        apiKey = json.path("apiKey").asInt(-1);
        valid = Versions.parse(json.get("validVersions").asText());
        flexible = Versions.parse(json.path("flexibleVersions").asText("none"));
        json.path("commonStructs").forEach(struct -> common.put(struct.get("name").asText(), struct.get("fields")));
        root = new Struct(type);
        fill(root, json.get("fields"));
        try {
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            toJson = converter.getMethod("write", type, short.class);
            fromJson = converter.getMethod("read", JsonNode.class, short.class);
        } catch (ClassNotFoundException before27) {
            toJson = fromJson = null;
        }
    }

    /** The struct of that name, whose fields stand inline or among the common structs. */
    Struct struct(String structName, JsonNode inline) throws ReflectiveOperationException {
        Struct found = structs.get(structName);
        if (found == null) {
            found = new Struct(Class.forName(type.getName() + "$" + structName));
            structs.put(structName, found);
            fill(found, inline != null ? inline : common.get(structName));
        }
        return found;
    }

    private void fill(Struct struct, JsonNode fields) throws ReflectiveOperationException {
        for (JsonNode field : fields) {
            struct.add(new Field(field, struct.type, this));
        }
    }

    boolean hasJson() {
        return toJson != null;
    }

    JsonNode toJson(Object value, int version) throws Throwable {
        try {
            return (JsonNode) toJson.invoke(null, value, (short) version);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    Object fromJson(JsonNode json, int version) throws Throwable {
        try {
            return fromJson.invoke(null, json, (short) version);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    byte[] write(Object value, int version) throws ReflectiveOperationException {
        org.apache.kafka.common.protocol.Message message = (org.apache.kafka.common.protocol.Message) value;
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = message.size(cache, (short) version);
        byte[] out;
        if (Records27.present()) {
            out = Records27.write(message, cache, size, (short) version);
        } else {
            ByteBuffer buffer = ByteBuffer.allocate(size);
            message.write(new ByteBufferAccessor(buffer), cache, (short) version);
            out = java.util.Arrays.copyOf(buffer.array(), buffer.position());
        }
        if (out.length != size) {
            throw new IllegalStateException("size() is " + size + ", written " + out.length);
        }
        return out;
    }

    /** The bytes behind their int16, as 4.x's MessageUtil writes a coordinator's keys, and everything else. */
    byte[] prefixed(Object value, int version) throws ReflectiveOperationException {
        Class<?> util = Class.forName("org.apache.kafka.common.protocol.MessageUtil");
        if (kind.equals("coordinator-key")) {
            Class<?> apiMessage = org.apache.kafka.common.protocol.ApiMessage.class;
            return (byte[]) util.getMethod("toCoordinatorTypePrefixedBytes", apiMessage).invoke(null, value);
        }
        Class<?> message = org.apache.kafka.common.protocol.Message.class;
        return (byte[]) util.getMethod("toVersionPrefixedBytes", short.class, message).invoke(null, (short) version, value);
    }

    Object read(ByteBuffer buffer, int version) throws ReflectiveOperationException {
        Object value = root.create();
        Readable reader = Records27.present() ? Records27.reader(buffer) : new ByteBufferAccessor(buffer);
        ((org.apache.kafka.common.protocol.Message) value).read(reader, (short) version);
        return value;
    }
}
