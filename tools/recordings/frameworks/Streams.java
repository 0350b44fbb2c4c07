import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts records by their key's last character, with exactly_once_v2, a repartition topic and a changelog:
 * BOOTSTRAP APPLICATION INPUT OUTPUT PROTOCOL RECORDS. With RECORDS 0 it runs until SIGTERM; otherwise it makes the topics,
 * writes so many records an hour ago, and ends once they are counted.
 */
public class Streams {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], input = args[2], output = args[3];
        int records = Integer.parseInt(args[5]);
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("application.id", args[1]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("group.protocol", args[4]);
        config.put("replication.factor", "1");
        config.put("commit.interval.ms", "200");
        config.put("default.key.serde", Serdes.StringSerde.class.getName());
        config.put("default.value.serde", Serdes.StringSerde.class.getName());
        config.put("state.dir", System.getProperty("java.io.tmpdir"));
        config.put("topology.optimization", "none");
        config.put("repartition.purge.interval.ms", "3600000");
        if (records > 0) {
            fill(bootstrap, input, output, records);
        }
        CountDownLatch left = new CountDownLatch(records);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(input)
                .groupBy((key, value) -> key.substring(key.length() - 1))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                        .withCachingDisabled())
                .toStream()
                .mapValues(String::valueOf)
                .peek((key, value) -> left.countDown())
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        CountDownLatch ended = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            ended.countDown();
        }));
        streams.start();
        if (records == 0) {
            ended.await();
        }
        left.await();
        Thread.sleep(500); // a commit
        System.exit(0);
    }

    static void fill(String bootstrap, String input, String output, int records) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        try (AdminClient admin = AdminClient.create(config)) {
            admin.createTopics(List.of(new NewTopic(input, 2, (short) 1), new NewTopic(output, 2, (short) 1))).all().get();
        }
        long then = System.currentTimeMillis() - 3_600_000;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            for (int number = 0; number < records; number++) {
                producer.send(new ProducerRecord<>(input, null, then + number, "" + number, "value " + number));
            }
        }
    }
}
