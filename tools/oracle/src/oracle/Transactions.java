package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * The transaction coordinator's own classes: states, and what a step makes of a record of __transaction_state. By
 * reflection: they need kafka-server-common, which not every class path has. Needs a release of 4.4 or later.
 */
final class Transactions {
    private static final HexFormat HEX = HexFormat.of();
    private static final String PACKAGE = "org.apache.kafka.coordinator.transaction.";
    private static final short NO_EPOCH = -1;

    private Transactions() {
    }

    static void answer(String op, JsonNode question, JsonGenerator out) throws Throwable {
        switch (op) {
            case "transactions.states" -> states(out);
            case "transactions.partition" -> out.writeNumberField(
                "partition", Utils.abs(question.get("id").asText().hashCode()) % question.get("count").asInt());
            case "transactions.step" -> step(question, out);
            case "transactions.follow" -> follow(question);
            default -> throw new IllegalArgumentException("no such question: " + op);
        }
    }

    private static void states(JsonGenerator out) throws Throwable {
        out.writeArrayFieldStart("states");
        for (Object state : type("TransactionState").getEnumConstants()) {
            out.writeStartObject();
            out.writeNumberField("id", ((Byte) call(state, "id")).intValue());
            out.writeStringField("name", (String) call(state, "stateName"));
            out.writeBooleanField("expires", (Boolean) call(state, "isExpirationAllowed"));
            out.writeArrayFieldStart("previous");
            for (Object previous : (Set<?>) call(state, "validPreviousStates")) {
                out.writeString((String) call(previous, "stateName"));
            }
            out.writeEndArray();
            out.writeEndObject();
        }
        out.writeEndArray();
    }

    /** Prepares and completes one transition, as the coordinator does: the record it writes, and its last epoch then. */
    private static void step(JsonNode question, JsonGenerator out) throws Throwable {
        Object metadata = loaded(question);
        Object prepared = prepared(metadata, question);
        call(metadata, "completeTransitionTo", prepared);
        byte[] bytes = (byte[]) callStatic(type("TransactionLog"), "valueToBytes", prepared, version(2));
        out.writeStringField("bytes", HEX.formatHex(bytes));
        out.writeNumberField("lastEpoch", ((Short) call(metadata, "lastProducerEpoch")).intValue());
    }

    /** Whether one record can follow another: fails as completeTransitionTo does. The first may be missing. */
    private static void follow(JsonNode question) throws Throwable {
        Object next = loaded(question.get("after").asText());
        if (!question.path("before").isTextual()) {
            return;
        }
        Object metadata = loaded(question.get("before").asText());
        Object state = call(next, "state");
        if (!((Set<?>) call(state, "validPreviousStates")).contains(call(metadata, "state"))) {
            throw new IllegalStateException(call(metadata, "state") + " to " + state);
        }
        Object transit = type("TxnTransitMetadata").getDeclaredConstructors()[0].newInstance(
            call(next, "producerId"), call(next, "prevProducerId"), field(next, "nextProducerId"), call(next, "producerEpoch"),
            call(metadata, "producerEpoch"), call(next, "txnTimeoutMs"), state, call(next, "topicPartitions"),
            call(next, "txnStartTimestamp"), call(next, "txnLastUpdateTimestamp"), call(next, "clientTransactionVersion"));
        call(metadata, "pendingState", Optional.of(state));
        call(metadata, "completeTransitionTo", transit);
    }

    private static Object field(Object target, String name) throws ReflectiveOperationException {
        java.lang.reflect.Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(target);
    }

    private static Object loaded(JsonNode question) throws Throwable {
        Object metadata = loaded(question.get("value").asText());
        call(metadata, "setLastProducerEpoch", (short) question.path("lastEpoch").asInt(NO_EPOCH));
        return metadata;
    }

    private static Object loaded(String hex) throws Throwable {
        Object key = callStatic(type("TransactionLog"), "keyToBytes", "id");
        byte[] value = HEX.parseHex(hex);
        Object read = callStatic(type("TransactionLog"), "read", ByteBuffer.wrap((byte[]) key), ByteBuffer.wrap(value));
        return call(read, "metadata");
    }

    private static Object prepared(Object metadata, JsonNode question) throws Throwable {
        long now = question.get("now").asLong();
        int timeout = question.path("timeoutMs").asInt();
        long newId = question.path("newProducerId").asLong(-1);
        Object version = version(question.path("version").asInt());
        switch (question.get("step").asText()) {
            case "increment" -> {
                Optional<Short> expected = question.path("expected").isNumber()
                    ? Optional.of((short) question.get("expected").asInt()) : Optional.empty();
                return call(metadata, "prepareIncrementProducerEpoch", timeout, expected, now);
            }
            case "rotate" -> {
                boolean keep = question.path("expected").isNumber();
                return call(metadata, "prepareProducerIdRotation", newId, timeout, now, keep);
            }
            case "add" -> {
                Set<TopicPartition> added = new HashSet<>();
                question.get("partitions").forEach(p -> added.add(new TopicPartition(p.get(0).asText(), p.get(1).asInt())));
                return call(metadata, "prepareAddPartitions", added, now, version);
            }
            case "end" -> {
                Object state = state(question.get("committed").asBoolean() ? "PREPARE_COMMIT" : "PREPARE_ABORT");
                boolean none = question.path("none").asBoolean();
                return call(metadata, "prepareAbortOrCommit", state, version, newId, now, none);
            }
            case "fence" -> {
                Object fenced = call(metadata, "prepareFenceProducerEpoch");
                call(metadata, "pendingState", Optional.empty());
                if (question.path("version").asInt() < 2) { // as TransactionCoordinator does it; later versions leave it to the end
                    call(metadata, "setProducerEpoch", call(fenced, "producerEpoch"));
                    call(metadata, "setLastProducerEpoch", NO_EPOCH);
                }
                return call(metadata, "prepareAbortOrCommit", state("PREPARE_ABORT"), version, newId, now, false);
            }
            case "complete" -> {
                return call(metadata, "prepareComplete", now);
            }
            default -> throw new IllegalArgumentException("no such step");
        }
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName(PACKAGE + name);
    }

    private static Object state(String name) throws Throwable {
        return callStatic(type("TransactionState"), "valueOf", name);
    }

    private static Object version(int level) throws Throwable {
        return callStatic(Class.forName("org.apache.kafka.server.common.TransactionVersion"), "fromFeatureLevel", (short) level);
    }

    private static Object call(Object target, String name, Object... arguments) throws Throwable {
        return invoke(target.getClass(), target, name, arguments);
    }

    private static Object callStatic(Class<?> type, String name, Object... arguments) throws Throwable {
        return invoke(type, null, name, arguments);
    }

    /** These classes overload names by the number of parameters alone. */
    private static Object invoke(Class<?> type, Object target, String name, Object... arguments) throws Throwable {
        for (Method method : type.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                try {
                    return method.invoke(target, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause();
                }
            }
        }
        throw new NoSuchMethodException(type.getName() + "." + name);
    }
}
