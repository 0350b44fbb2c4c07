import java.io.*;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/** Writes before and after a line on its input, reads with a group, then shares the topic between two members. */
class ClusterClient {
    static KafkaConsumer<String, String> consumer(Properties common, String group, String protocol) {
        Properties reads = new Properties();
        reads.putAll(common);
        reads.putAll(Map.of("group.id", group, "auto.offset.reset", "earliest", "group.protocol", protocol));
        return new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] args) throws Exception {
        Properties common = new Properties();
        try (var file = Files.newBufferedReader(Path.of(args[0]))) { common.load(file); }
        String protocol = args[1];
        try (var producer = new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 6; i++) producer.send(new ProducerRecord<>("orders", i % 3, "k", "first-" + i)).get();
            System.out.println("half");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            for (int i = 0; i < 6; i++) producer.send(new ProducerRecord<>("orders", i % 3, "k", "second-" + i)).get();
        }
        Set<String> values = new TreeSet<>();
        try (var one = consumer(common, "g", protocol); var two = consumer(common, "g", protocol)) {
            one.subscribe(List.of("orders"));
            while (values.size() < 12)
                for (var record : one.poll(Duration.ofMillis(200))) values.add(record.value());
            one.commitSync();
            two.subscribe(List.of("orders"));
            while (two.assignment().isEmpty() || one.assignment().size() + two.assignment().size() != 3) {
                one.poll(Duration.ofMillis(100));
                two.poll(Duration.ofMillis(100));
            }
        }
        System.out.println(String.join(",", values));
    }
}
