package oracle;

import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Makes objects that a version can carry: `random` ones of mixed sizes, `extreme` ones at the borders of everything.
 * The same message, version and seed give the same object.
 */
final class Maker {
    private static final int[] VARINT_BORDERS = {0, 1, 126, 127, 128, 129};
    private static final int[] LONG_LENGTHS = {16381, 16382, 16383, 16384, 16385, 32767};
    private static final int[] TAGS = {0, 1, 5, 127, 128, 16383, 16384, (1 << 28) - 1, Integer.MAX_VALUE - 1};
    private static final String[] SIGNS = {"a", "Z", "-", "\0", "\"", "\\", "\n", "é", "߿", "ࠀ", "中", "\uffff", "\ufeff",
        "\ufffd", "𐀀", "😀", "\uDBFF\uDFFF"};
    private static final long[] DOUBLES = {0L, 1L << 63, 0x7ff0000000000000L, 0xfff0000000000000L, 0x7ff8000000000000L,
        0x7ff8000000000001L, 0xfff80000deadbeefL, 1L, 0x7fefffffffffffffL, 0x3ff0000000000000L};

    private final SplittableRandom random;
    private final int version;
    private final boolean flexible;
    private final boolean extreme;
    private final int firstTag; // unknown tags below this one may be known to others
    private int budget; // of bytes, roughly: what is made when it is used up is small

    Maker(Message message, int version, long seed, boolean extreme, int firstTag, int budget) {
        this.firstTag = firstTag;
        random = new SplittableRandom(seed * 1_000_003 + message.name.hashCode() * 31L + version);
        this.version = version;
        flexible = message.flexible.has(version);
        this.extreme = extreme;
        this.budget = budget > 0 ? budget : extreme ? 40_000 : 1_500;
    }

    Object struct(Struct struct) throws ReflectiveOperationException {
        Object out = struct.create();
        for (Field field : struct.fields) {
            boolean carried = field.versions.has(version);
            // A field that the version does not have is dropped if its schema has `ignorable`, and refused otherwise.
            boolean set = carried ? !field.tagged.has(version) || !chance(3) : field.ignorable && chance(8);
            if (set) {
                field.set(out, value(field, carried));
            }
        }
        if (flexible && chance(extreme ? 2 : 4)) {
            unknownTags(struct, Kafka.unknownTags(out));
        }
        return out;
    }

    private Object value(Field field, boolean carried) throws ReflectiveOperationException {
        if ((carried ? field.nullable.has(version) : field.nullable.high() >= 0) && chance(4)) {
            return null;
        }
        if (!field.array) {
            return item(field, field.javaType);
        }
        Collection<Object> out = Kafka.collection(field.javaType);
        int count = count(field);
        for (int i = 0; i < count; i++) {
            out.add(item(field, null));
        }
        return out;
    }

    private int count(Field field) {
        boolean small = field.struct == null && !field.type.equals("string");
        if (budget <= 0) {
            return random.nextInt(2);
        }
        if (extreme && chance(3)) {
            return VARINT_BORDERS[random.nextInt(VARINT_BORDERS.length)];
        }
        if (extreme && small && chance(12)) {
            return LONG_LENGTHS[random.nextInt(5)];
        }
        return random.nextInt(small ? 6 : 4);
    }

    private Object item(Field field, Class<?> javaType) throws ReflectiveOperationException {
        budget -= 8;
        if (field.struct != null) {
            return struct(field.struct);
        }
        return switch (field.type) {
            case "bool" -> random.nextInt(2) == 1;
            case "int8" -> (byte) integer(8);
            case "int16" -> (short) integer(16);
            case "int32" -> (int) integer(32);
            case "int64" -> integer(64);
            case "uint16" -> (int) (integer(16) & 0xffff);
            case "uint32" -> integer(32) & 0xffffffffL;
            case "float64" -> Double.longBitsToDouble(
                chance(2) ? DOUBLES[random.nextInt(DOUBLES.length)] : random.nextLong());
            case "uuid" -> uuid(javaType);
            case "string" -> text();
            case "bytes", "records" -> Kafka.bytes(javaType == null ? byte[].class : javaType, bytes());
            default -> throw new IllegalStateException("the schema has a type that the oracle does not know: " + field.type);
        };
    }

    private long integer(int bits) {
        long most = bits == 64 ? Long.MAX_VALUE : (1L << (bits - 1)) - 1;
        return switch (random.nextInt(extreme ? 4 : 7)) {
            case 0 -> most;
            case 1 -> -most - 1;
            case 2 -> -1;
            case 3 -> 0;
            case 4 -> random.nextInt(100);
            default -> random.nextLong() >> (64 - bits) >> random.nextInt(bits);
        };
    }

    private Object uuid(Class<?> javaType) throws ReflectiveOperationException {
        Class<?> type = javaType != null ? javaType : Class.forName("org.apache.kafka.common.Uuid");
        return switch (random.nextInt(4)) {
            case 0 -> Kafka.uuid(type, 0, 0);
            case 1 -> Kafka.uuid(type, -1, -1);
            default -> Kafka.uuid(type, random.nextLong(), random.nextLong());
        };
    }

    private int length(int limit) {
        int length = random.nextInt(12);
        if (budget > 0 && chance(extreme ? 2 : 10)) {
            length = VARINT_BORDERS[random.nextInt(VARINT_BORDERS.length)];
        }
        if (budget > 20_000 && chance(6)) {
            length = LONG_LENGTHS[random.nextInt(LONG_LENGTHS.length)];
        }
        budget -= length;
        return Math.min(length, limit);
    }

    /** A string whose UTF-8 has exactly the length that was drawn. */
    private String text() {
        StringBuilder out = new StringBuilder();
        int left = length(32767);
        while (left > 0) {
            String sign = SIGNS[random.nextInt(SIGNS.length)];
            int size = sign.getBytes(java.nio.charset.StandardCharsets.UTF_8).length;
            if (size > left) {
                sign = "x";
                size = 1;
            }
            out.append(sign);
            left -= size;
        }
        return out.toString();
    }

    private byte[] bytes() {
        byte[] out = new byte[length(Integer.MAX_VALUE)];
        random.nextBytes(out);
        return out;
    }

    private void unknownTags(Struct struct, List<RawTaggedField> out) {
        Set<Integer> tags = new TreeSet<>();
        for (int i = random.nextInt(1, 4); i > 0; i--) {
            int tag = chance(2) ? TAGS[random.nextInt(TAGS.length)] : random.nextInt(1 << random.nextInt(1, 31));
            if (tag >= firstTag && !struct.tags.contains(tag)) {
                tags.add(tag);
            }
        }
        for (int tag : tags) {
            out.add(new RawTaggedField(tag, bytes()));
        }
    }

    private boolean chance(int oneIn) {
        return random.nextInt(oneIn) == 0;
    }
}
