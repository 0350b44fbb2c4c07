package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers, step by step: each is there from its first step until the process ends. */
final class Producing {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    private Producing() {
    }

    static void answer(JsonNode question, JsonGenerator out) throws Exception {
        String id = question.get("transactionalId").asText();
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(id);
        if (producer == null) {
            producer = begun(question, id);
            PRODUCERS.put(id, producer);
        }
        switch (question.get("step").asText()) {
            case "init" -> producer.flush();
            case "begin" -> producer.beginTransaction();
            case "send" -> send(producer, question);
            case "offsets" -> offsets(producer, question);
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(question.get("step").asText());
        }
        out.writeBooleanField("done", true);
    }

    private static KafkaProducer<byte[], byte[]> begun(JsonNode question, String id) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", question.get("bootstrap").asText(),
            "client.id", id,
            "transactional.id", id,
            "transaction.timeout.ms", question.get("timeoutMs").asInt());
        var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    /** Records as [key, value, timestamp]; all are written when this returns. */
    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode question) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (JsonNode record : question.get("records")) {
            sent.add(producer.send(new ProducerRecord<>(
                question.get("topic").asText(), question.get("partition").asInt(), record.get(2).asLong(),
                bytes(record.get(0)), bytes(record.get(1)))));
        }
        producer.flush();
        for (Future<?> one : sent) {
            one.get();
        }
    }

    private static void offsets(KafkaProducer<byte[], byte[]> producer, JsonNode question) {
        TopicPartition of = new TopicPartition(question.get("topic").asText(), question.get("partition").asInt());
        producer.sendOffsetsToTransaction(
            Map.of(of, new OffsetAndMetadata(question.get("offset").asLong())),
            new ConsumerGroupMetadata(question.get("group").asText()));
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }
}
