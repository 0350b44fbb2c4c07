package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer without a group that reads partitions from their beginnings to their ends, as its isolation level has them. */
final class Consume {
    private static final Duration POLL = Duration.ofMillis(200);

    private Consume() {
    }

    static void answer(JsonNode question, JsonGenerator out) throws IOException {
        List<TopicPartition> partitions = new ArrayList<>();
        question.get("topics").forEach(topic -> partitions.add(new TopicPartition(topic.asText(), 0)));
        Map<String, Object> config = Map.of(
            "bootstrap.servers", question.get("bootstrap").asText(),
            "isolation.level", question.get("isolation").asText(),
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
        long deadline = System.nanoTime() + question.get("seconds").asLong() * 1_000_000_000;
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the ends are not reached: " + ends);
                }
                consumer.poll(POLL).forEach(found::add);
            }
            out.writeObjectFieldStart("topics");
            for (TopicPartition one : partitions) {
                out.writeObjectFieldStart(one.topic());
                out.writeNumberField("start", starts.get(one));
                out.writeNumberField("end", ends.get(one));
                out.writeNumberField("position", consumer.position(one));
                out.writeArrayFieldStart("records");
                for (ConsumerRecord<byte[], byte[]> record : found) {
                    if (record.topic().equals(one.topic())) {
                        out.writeStartArray();
                        out.writeNumber(record.offset());
                        out.writeString(text(record.key()));
                        out.writeString(text(record.value()));
                        out.writeEndArray();
                    }
                }
                out.writeEndArray();
                out.writeEndObject();
            }
            out.writeEndObject();
        }
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
