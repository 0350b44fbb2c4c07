import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** Commits, aborts, commits with offsets of a group; then reads with both isolation levels, and prints what it read. */
class TransactionalClient {
    public static void main(String[] args) throws Exception {
        Map<String, Object> common = Map.of("bootstrap.servers", args[0]);
        Map<String, Object> writes = new HashMap<>(common);
        writes.put("transactional.id", "java");
        try (var producer = new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", 0, "k", "committed"));
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", 0, "k", "aborted")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", 0, "k", "with offsets"));
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(3)), new ConsumerGroupMetadata("copied"));
            producer.commitTransaction();
        }
        for (String isolation : List.of("read_committed", "read_uncommitted")) {
            Map<String, Object> reads = new HashMap<>(common);
            reads.putAll(Map.of("group.id", isolation, "auto.offset.reset", "earliest", "isolation.level", isolation));
            int wanted = isolation.equals("read_committed") ? 2 : 3;
            List<String> values = new ArrayList<>();
            try (var consumer = new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of("orders"));
                while (values.size() < wanted)
                    for (var record : consumer.poll(Duration.ofMillis(200))) values.add(record.value());
                consumer.commitSync();
            }
            System.out.println(String.join(",", values));
        }
    }
}
