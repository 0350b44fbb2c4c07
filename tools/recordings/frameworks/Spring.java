import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.MessageListener;

/** What an application does with Spring for Apache Kafka and its defaults: BOOTSTRAP TOPIC RECORDS. */
public class Spring {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1];
        int count = Integer.parseInt(args[2]);
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap);
        new KafkaAdmin(common).createOrModifyTopics(new NewTopic(topic, 2, (short) 1));

        Map<String, Object> sending = new HashMap<>(common);
        sending.put("key.serializer", StringSerializer.class);
        sending.put("value.serializer", StringSerializer.class);
        var producers = new DefaultKafkaProducerFactory<String, String>(sending);
        var template = new KafkaTemplate<>(producers);
        for (int number = 0; number < count; number++) {
            template.send(topic, "" + number, "value " + number + " of many, much alike");
        }
        template.flush();
        producers.destroy();

        sending.put("transactional.id", topic);
        var transactional = new DefaultKafkaProducerFactory<String, String>(sending);
        new KafkaTemplate<>(transactional).executeInTransaction(one -> one.send(topic, 0, "key", "in a transaction"));
        transactional.destroy();

        Map<String, Object> reading = new HashMap<>(common);
        reading.put("key.deserializer", StringDeserializer.class);
        reading.put("value.deserializer", StringDeserializer.class);
        reading.put("auto.offset.reset", "earliest");
        CountDownLatch left = new CountDownLatch(count + 1);
        var properties = new ContainerProperties(topic);
        properties.setGroupId(topic);
        properties.setMessageListener((MessageListener<String, String>) record -> left.countDown());
        var container = new ConcurrentMessageListenerContainer<>(
                new DefaultKafkaConsumerFactory<String, String>(reading), properties);
        container.start();
        left.await();
        container.stop();
        System.exit(0);
    }
}
