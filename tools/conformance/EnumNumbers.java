import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** The numbers of enums: for each argument, CLASS#MEMBER (a field or a method without arguments), lines of class, constant, number. */
final class EnumNumbers {
    public static void main(String[] args) throws Exception {
        for (String arg : args) {
            String[] parts = arg.split("#");
            Class<?> type = Class.forName(parts[0]);
            for (Object constant : type.getEnumConstants()) {
                System.out.println(parts[0] + " " + constant.getClass().getMethod("name").invoke(constant)
                        + " " + number(type, parts[1], constant));
            }
        }
    }

    private static Object number(Class<?> type, String member, Object constant) throws Exception {
        for (Field field : type.getDeclaredFields()) {
            if (field.getName().equals(member)) {
                return opened(field).get(constant);
            }
        }
        Method method = type.getDeclaredMethod(member);
        return opened(method).invoke(constant);
    }

    private static <T extends AccessibleObject> T opened(T member) {
        member.setAccessible(true);
        return member;
    }
}
