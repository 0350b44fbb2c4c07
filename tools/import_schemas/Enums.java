import java.util.StringJoiner;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** What the enums Errors and ApiKeys of the release on the class path hold, as one JSON object; facts, no sentences. */
public final class Enums {
    public static void main(String[] args) {
        StringJoiner errors = new StringJoiner(",");
        for (Errors error : Errors.values()) {
            ApiException exception = error.exception();
            String name = exception == null ? "null" : '"' + exception.getClass().getSimpleName() + '"';
            errors.add(String.format("{\"code\":%d,\"name\":\"%s\",\"retriable\":%b,\"exception\":%s}",
                error.code(), error.name(), exception instanceof RetriableException, name));
        }
        StringJoiner keys = new StringJoiner(",");
        for (ApiKeys key : ApiKeys.values()) {
            keys.add(String.format("{\"key\":%d,\"name\":\"%s\",\"constant\":\"%s\",\"clusterAction\":%b}",
                key.id, key.name, key.name(), key.clusterAction));
        }
        System.out.println("{\"errors\":[" + errors + "],\"apiKeys\":[" + keys + "]}");
    }
}
