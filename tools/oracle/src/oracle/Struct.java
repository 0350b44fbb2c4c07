package oracle;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** A struct: its generated class and its fields in the schema's order. */
final class Struct {
    final List<Field> fields = new ArrayList<>();
    final Set<Integer> tags = new HashSet<>(); // that the schema knows in any version
    final Class<?> type;
    private final Constructor<?> constructor;

    Struct(Class<?> type) throws ReflectiveOperationException {
        this.type = type;
        constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
    }

    void add(Field field) {
        fields.add(field);
        if (field.tag >= 0) {
            tags.add(field.tag);
        }
    }

    Object create() throws ReflectiveOperationException {
        return constructor.newInstance();
    }
}
