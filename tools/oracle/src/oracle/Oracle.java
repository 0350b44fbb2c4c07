package oracle;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * Kafka's own classes, queried over standard input: one JSON object a line, one line of answer each. README.md lists the
 * questions.
 */
public final class Oracle {
    private static final HexFormat HEX = HexFormat.of();

    private final ObjectMapper mapper = new ObjectMapper();
    private final JsonFactory factory = mapper.getFactory();
    private final Release release;

    private Oracle() throws Exception {
        release = new Release();
    }

    public static void main(String[] args) throws Exception {
        // Whatever a library prints must not stand between the answers.
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Oracle oracle = new Oracle();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        java.io.Writer writer = new java.io.BufferedWriter(new java.io.OutputStreamWriter(out, StandardCharsets.UTF_8), 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            writer.write(oracle.answer(line));
            writer.write('\n');
            if (!in.ready()) {
                writer.flush();
            }
        }
        writer.flush();
    }

    private String answer(String line) throws IOException {
        StringWriter text = new StringWriter(line.length() * 4);
        try (JsonGenerator out = factory.createGenerator(text)) {
            out.writeStartObject();
            answer(mapper.readTree(line), out);
            out.writeEndObject();
            out.flush();
            return text.toString();
        } catch (Throwable error) {
            // The generator may hold half an answer: begin anew.
            StringWriter other = new StringWriter();
            try (JsonGenerator out = factory.createGenerator(other)) {
                out.writeStartObject();
                failure(out, "error", error);
                out.writeEndObject();
            }
            return other.toString();
        }
    }

    private void failure(JsonGenerator out, String name, Throwable error) throws IOException {
        out.writeStringField(name, error.getClass().getName());
        out.writeStringField("text", String.valueOf(error.getMessage()));
    }

    private void answer(JsonNode question, JsonGenerator out) throws Throwable {
        String op = question.get("op").asText();
        switch (op) {
            case "list" -> list(out);
            case "headers" -> Headers.write(out);
            case "consume" -> Consume.answer(question, out);
            case "produce" -> Producing.answer(question, out);
            case "configs" -> configs(question.get("class").asText(), out);
            case "batches.write", "batches.control", "batches.read", "compress", "decompress" ->
                Batches.answer(op, question, out);
            case "producers.replay" -> Producers.answer(question, out);
            case "judge.log", "judge.txnindex", "judge.snapshot" -> Judges.answer(op, question, out);
            case "transactions.states", "transactions.partition", "transactions.step", "transactions.follow" ->
                Transactions.answer(op, question, out);
            default -> {
                Message message = release.messages.get(question.get("name").asText());
                int version = question.path("version").asInt();
                if (message == null || !message.valid.has(version) && !op.equals("defaults")) {
                    throw new IllegalArgumentException("no such message or version in this release");
                }
                switch (op) {
                    case "defaults" -> {
                        out.writeFieldName("value");
                        new Dump(out, -1).struct(message.root, message.root.create());
                    }
                    case "make" -> describe(make(message, version, question), message, version, out);
                    case "read" -> {
                        ByteBuffer buffer = ByteBuffer.wrap(HEX.parseHex(question.get("bytes").asText()));
                        Object value = message.read(buffer, version);
                        out.writeNumberField("consumed", buffer.position());
                        describe(value, message, question.path("to").asInt(version), out);
                    }
                    case "prefixed" -> {
                        ByteBuffer buffer = ByteBuffer.wrap(HEX.parseHex(question.get("bytes").asText()));
                        out.writeStringField("bytes", HEX.formatHex(message.prefixed(message.read(buffer, version), version)));
                    }
                    case "json" -> describe(message.fromJson(question.get("json"), version), message, version, out);
                    default -> throw new IllegalArgumentException("no such question: " + op);
                }
            }
        }
    }

    private void configs(String name, JsonGenerator out) throws IOException, ReflectiveOperationException {
        Object names = Class.forName("org.apache.kafka.clients." + name).getMethod("configNames").invoke(null);
        out.writeArrayFieldStart("names");
        for (Object one : new java.util.TreeSet<>((java.util.Set<?>) names)) {
            out.writeString((String) one);
        }
        out.writeEndArray();
    }

    private Object make(Message message, int version, JsonNode question) throws ReflectiveOperationException {
        String style = question.path("style").asText("random");
        if (style.equals("default")) {
            return message.root.create();
        }
        boolean extreme = style.equals("extreme");
        int firstTag = question.path("firstTag").asInt();
        int budget = question.path("budget").asInt();
        return new Maker(message, version, question.path("seed").asLong(), extreme, firstTag, budget).struct(message.root);
    }

    /**
     * The value, its JSON and its bytes. Writing may fail for what reading accepts (tags out of order), and comes last:
     * 2.7 empties the byte buffers that it writes.
     */
    private void describe(Object value, Message message, int version, JsonGenerator out) throws Throwable {
        out.writeFieldName("value");
        new Dump(out, version).struct(message.root, value);
        if (message.hasJson()) {
            JsonNode json = null;
            try {
                json = message.toJson(value, version);
            } catch (Exception error) {
                out.writeStringField("jsonError", error.getClass().getName() + ": " + error.getMessage());
            }
            if (json != null) {
                out.writeFieldName("json");
                mapper.writeTree(out, json);
            }
        }
        byte[] bytes = null;
        try {
            bytes = message.write(value, version);
        } catch (Exception error) {
            failure(out, "writeError", error);
        }
        if (bytes != null) {
            out.writeStringField("bytes", HEX.formatHex(bytes));
        }
    }

    private void list(JsonGenerator out) throws IOException {
        out.writeArrayFieldStart("messages");
        for (Message message : release.messages.values()) {
            out.writeStartObject();
            out.writeStringField("name", message.name);
            out.writeStringField("kind", message.kind);
            out.writeNumberField("apiKey", message.apiKey);
            out.writeNumberField("low", message.valid.low());
            out.writeNumberField("high", message.valid.high());
            out.writeNumberField("flexible", message.flexible.equals(Versions.NONE) ? -1 : message.flexible.low());
            out.writeBooleanField("json", message.hasJson());
            out.writeEndObject();
        }
        out.writeEndArray();
    }
}
