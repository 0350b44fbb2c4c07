import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A share consumer that does with each record what its key says, up to the first colon: accept, reject, release (each
 * time), retry (release the first delivery, accept the second), expire, die and hold (not acknowledged in the mode of
 * that name; released in others, accepted in "run").
 *
 * <p>ShareFates BOOTSTRAP config GROUP NAME=VALUE... sets a group's properties; ShareFates BOOTSTRAP reset GROUP TOPIC
 * PARTITION OFFSET its offset (AlterShareGroupOffsets). ShareFates BOOTSTRAP MODE GROUP TOPIC FILE SECONDS reads: "run" until nothing came for SECONDS; "expire", "die" and "hold" until a poll returns records of
 * that fate, which are not acknowledged: then it waits SECONDS and closes, ends at once, or waits for ever. Each
 * delivery is a line of FILE: partition, offset, delivery count, what was done.
 */
final class ShareFates {
    private static final long JOINING_MS = 20_000;

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        if (args[1].equals("config")) {
            configure(config, args);
            return;
        }
        if (args[1].equals("reset")) {
            try (Admin admin = Admin.create(config)) {
                TopicPartition place = new TopicPartition(args[3], Integer.parseInt(args[4]));
                admin.alterShareGroupOffsets(args[2], Map.of(place, Long.parseLong(args[5]))).all().get();
            }
            return;
        }
        config.put("group.id", args[2]);
        config.put("share.acknowledgement.mode", "explicit");
        config.put("max.poll.records", "200");
        try (BufferedWriter told = Files.newBufferedWriter(Path.of(args[4]));
                KafkaShareConsumer<String, String> consumer =
                        new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[3]));
            read(consumer, told, args[1], Integer.parseInt(args[5]));
        }
    }

    private static void configure(Properties config, String[] args) throws Exception {
        try (Admin admin = Admin.create(config)) {
            List<AlterConfigOp> changes = new ArrayList<>();
            for (int i = 3; i < args.length; i++) {
                String[] pair = args[i].split("=", 2);
                changes.add(new AlterConfigOp(new ConfigEntry(pair[0], pair[1]), AlterConfigOp.OpType.SET));
            }
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, args[2]), changes))
                    .all()
                    .get();
        }
    }

    private static void read(
            KafkaShareConsumer<String, String> consumer, BufferedWriter told, String mode, int seconds)
            throws Exception {
        long last = System.currentTimeMillis() + JOINING_MS;
        while (System.currentTimeMillis() - last < seconds * 1000L || !mode.equals("run")) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
            if (records.isEmpty()) {
                continue;
            }
            last = System.currentTimeMillis();
            boolean left = false;
            for (ConsumerRecord<String, String> record : records) {
                String fate = record.key() == null ? "accept" : record.key().split(":", 2)[0];
                int count = record.deliveryCount().orElse((short) -1);
                String done = fate.equals(mode) ? "none" : done(mode, fate, count);
                if (done.equals("none")) {
                    left = true;
                } else {
                    consumer.acknowledge(record, AcknowledgeType.valueOf(done.toUpperCase()));
                }
                told.write(record.partition() + " " + record.offset() + " " + count + " " + done + "\n");
            }
            consumer.commitSync().forEach((place, problem) -> {
                if (problem.isPresent()) {
                    write(told, "failed " + place.partition() + " " + problem.get().getMessage() + "\n");
                }
            });
            told.flush();
            if (left) {
                end(mode, seconds);
                return;
            }
        }
    }

    private static void end(String mode, int seconds) throws InterruptedException {
        if (mode.equals("die")) {
            Runtime.getRuntime().halt(0);
        }
        System.out.println("held");
        System.out.flush();
        Thread.sleep(mode.equals("hold") ? Long.MAX_VALUE : seconds * 1000L);
    }

    private static String done(String mode, String fate, int count) {
        return switch (fate) {
            case "reject", "release" -> fate;
            case "retry" -> count < 2 ? "release" : "accept";
            case "expire", "die", "hold" -> mode.equals("run") ? "accept" : "release";
            default -> "accept";
        };
    }

    private static void write(BufferedWriter told, String text) {
        try {
            told.write(text);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
