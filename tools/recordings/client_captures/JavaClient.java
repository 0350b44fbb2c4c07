import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What an application does with Kafka's Java clients of any release: BOOTSTRAP TOPIC RECORDS GROUP_PROTOCOL. */
public class JavaClient {
    static final String PACKAGE = "org.apache.kafka.common.serialization.";

    static Properties properties(String bootstrap, String clientId, String... more) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        made.put("client.id", clientId);
        for (String kind : new String[] {"key.", "value."}) {
            made.put(kind + "serializer", PACKAGE + "StringSerializer");
            made.put(kind + "deserializer", PACKAGE + "StringDeserializer");
        }
        for (int i = 0; i < more.length; i += 2) {
            made.put(more[i], more[i + 1]);
        }
        return made;
    }

    @SuppressWarnings("unchecked")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> reader) throws Exception {
        try { // since 2.0
            return (ConsumerRecords<String, String>)
                    reader.getClass().getMethod("poll", Duration.class).invoke(reader, Duration.ofSeconds(1));
        } catch (NoSuchMethodException e) {
            return (ConsumerRecords<String, String>) reader.getClass().getMethod("poll", long.class).invoke(reader, 1000L);
        }
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1];
        int count = Integer.parseInt(args[2]);
        try (AdminClient admin = AdminClient.create(properties(bootstrap, "admin"))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
            admin.describeTopics(List.of(topic));
            admin.describeCluster().nodes().get();
        }
        Properties orders = properties(bootstrap, "orders", "compression.type", "lz4", "linger.ms", "5");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(orders)) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, "" + number, "value " + number + " of many, much alike"));
            }
        }
        Properties payments = properties(bootstrap, "payments", "transactional.id", topic);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(payments)) {
            producer.initTransactions();
            for (boolean commits : new boolean[] {true, false}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "key", "in a transaction")).get();
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        Properties reading = properties(
                bootstrap, "reader", "group.id", topic, "auto.offset.reset", "earliest",
                "isolation.level", "read_committed", "enable.auto.commit", "false");
        if (args.length > 3) {
            reading.put("group.protocol", args[3]);
        }
        try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(reading)) {
            reader.subscribe(List.of(topic));
            for (int read = 0; read < count + 1; ) {
                read += poll(reader).count();
            }
            reader.commitSync();
        }
    }
}
