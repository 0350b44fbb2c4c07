import io.aiven.kafka.tieredstorage.RemoteStorageManager;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** Copies the segments of a LocalTieredStorage folder with Aiven's plugin: FOLDER, then its configuration as NAME=VALUE. */
public final class TierObjects {
    public static void main(String[] args) throws Exception {
        Map<String, String> config = new HashMap<>();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        List<Path> segments = new ArrayList<>();
        try (var found = Files.walk(Path.of(args[0]))) {
            found.filter(path -> path.toString().endsWith(".log")).sorted().forEach(segments::add);
        }
        try (RemoteStorageManager manager = new RemoteStorageManager()) {
            manager.configure(config);
            for (Path segment : segments) {
                copy(manager, segment);
            }
        }
        System.exit(0);  // the manager's caches leave threads
    }

    private static void copy(RemoteStorageManager manager, Path segment) throws Exception {
        String folder = segment.getParent().getFileName().toString();
        String named = folder.substring(0, folder.length() - 23);
        int dash = named.lastIndexOf('-');
        TopicPartition partition =
            new TopicPartition(named.substring(0, dash), Integer.parseInt(named.substring(dash + 1)));
        Uuid topicId = Uuid.fromString(folder.substring(folder.length() - 22));
        String name = segment.getFileName().toString();
        long start = Long.parseLong(name.substring(0, 20));
        Uuid id = Uuid.fromString(name.substring(21, 43));
        RemoteLogSegmentMetadata metadata = new RemoteLogSegmentMetadata(
            new RemoteLogSegmentId(new TopicIdPartition(topicId, partition), id),
            start, start, -1L, 1, 0L, (int) Files.size(segment), new TreeMap<>(Map.of(0, start)));
        Path transactions = beside(segment, "txnindex");
        manager.copyLogSegmentData(metadata, new LogSegmentData(
            segment, beside(segment, "index"), beside(segment, "timeindex"),
            Files.exists(transactions) ? Optional.of(transactions) : Optional.empty(),
            beside(segment, "snapshot"), ByteBuffer.wrap(Files.readAllBytes(beside(segment, "leader_epoch_checkpoint")))));
    }

    private static Path beside(Path segment, String suffix) {
        String name = segment.getFileName().toString();
        return segment.resolveSibling(name.substring(0, name.length() - 3) + suffix);
    }
}
