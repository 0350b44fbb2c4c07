package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.Locale;

/** One field of a struct: its schema in the jar, and the generated class's getter and setter. */
final class Field {
    final String name;
    final String type; // without "[]"
    final boolean array;
    final Versions versions;
    final Versions nullable;
    final Versions tagged;
    final int tag; // -1: none
    final boolean ignorable;
    final Struct struct; // of a struct, or of the elements of an array of structs
    final Class<?> javaType;
    private final Method getter;
    private final Method setter;

    Field(JsonNode json, Class<?> owner, Message message) throws ReflectiveOperationException {
        String schemaName = json.get("name").asText();
        name = schemaName.substring(0, 1).toLowerCase(Locale.ROOT) + schemaName.substring(1);
        String schemaType = json.get("type").asText();
        array = schemaType.startsWith("[]");
        type = array ? schemaType.substring(2) : schemaType;
        tagged = Versions.parse(json.path("taggedVersions").asText("none"));
        versions = json.has("versions") ? Versions.parse(json.get("versions").asText()) : tagged;
        nullable = Versions.parse(json.path("nullableVersions").asText("none"));
        tag = json.path("tag").asInt(-1);
        ignorable = json.path("ignorable").asBoolean();
        struct = Character.isUpperCase(type.charAt(0)) ? message.struct(type, json.get("fields")) : null;
        getter = owner.getMethod(name);
        getter.setAccessible(true);
        javaType = getter.getReturnType();
        setter = owner.getMethod("set" + name.substring(0, 1).toUpperCase(Locale.ROOT) + name.substring(1), javaType);
        setter.setAccessible(true);
    }

    Object get(Object owner) throws ReflectiveOperationException {
        return getter.invoke(owner);
    }

    void set(Object owner, Object value) throws ReflectiveOperationException {
        setter.invoke(owner, value);
    }
}
