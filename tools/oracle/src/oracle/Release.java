package oracle;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** Every message whose schema lies in a Kafka jar on the class path; the class is found by its name in the same jar. */
final class Release {
    private static final Pattern SCHEMA = Pattern.compile("(common/)?(message|metadata)/[^/]+\\.json");
    private static final Pattern TOP_CLASS = Pattern.compile("(org/apache/kafka/.+)/([^/$]+)\\.class");

    final Map<String, Message> messages = new TreeMap<>();

    Release() throws IOException, ReflectiveOperationException {
        ObjectMapper mapper = new ObjectMapper().enable(JsonParser.Feature.ALLOW_COMMENTS);
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (path.endsWith(".jar")) {
                read(path, mapper);
            }
        }
    }

    private void read(String path, ObjectMapper mapper) throws IOException, ReflectiveOperationException {
        Map<String, List<String>> classes = new HashMap<>();
        List<JsonNode> schemas = new ArrayList<>();
        try (ZipFile jar = new ZipFile(path)) {
            for (Enumeration<? extends ZipEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
                ZipEntry entry = entries.nextElement();
                var top = TOP_CLASS.matcher(entry.getName());
                if (top.matches()) {
                    String full = (top.group(1) + "/" + top.group(2)).replace('/', '.');
                    classes.computeIfAbsent(top.group(2), key -> new ArrayList<>()).add(full);
                } else if (SCHEMA.matcher(entry.getName()).matches()) {
                    try (InputStream in = jar.getInputStream(entry)) {
                        schemas.add(mapper.readTree(in));
                    }
                }
            }
        }
        for (JsonNode schema : schemas) {
            String name = schema.get("name").asText();
            // 4.x keeps the schemas of messages that it dropped, without versions and without a class.
            if (!schema.get("validVersions").asText().equals("none")) {
                messages.put(name, new Message(schema, find(classes, name)));
            }
        }
    }

    private static Class<?> find(Map<String, List<String>> classes, String name) throws ClassNotFoundException {
        for (String simple : List.of(name + "Data", name)) {
            for (String full : classes.getOrDefault(simple, List.of())) {
                Class<?> found = Class.forName(full);
                if (org.apache.kafka.common.protocol.Message.class.isAssignableFrom(found)) {
                    return found;
                }
            }
        }
        throw new ClassNotFoundException("no generated class for " + name);
    }
}
