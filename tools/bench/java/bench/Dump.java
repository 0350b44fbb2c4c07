package bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.MessageDigest;

/**
 * `kafka-dump-log.sh` in a warm JVM: its `main`, called again and again; standard output leads where the process's does.
 * The class path has the release of the tools, so the class is named here and not linked.
 */
final class Dump implements Job {
    private final Method main;
    private final String small;
    private final String[] arguments;

    /** `file` is measured; the rows of `small` are compared with other contestants'. */
    Dump(String file, String small, String[] options) throws Exception {
        main = Class.forName("org.apache.kafka.tools.DumpLogSegments").getMethod("main", String[].class);
        this.small = small;
        arguments = new String[options.length + 2];
        arguments[0] = "--files";
        arguments[1] = file;
        System.arraycopy(options, 0, arguments, 2, options.length);
    }

    @Override
    public Object run() throws Exception {
        main.invoke(null, (Object) arguments);
        return null;
    }

    @Override
    public String check() throws Exception {
        File printed = File.createTempFile("dump", ".txt");
        PrintStream usual = System.out;
        try (PrintStream file = new PrintStream(new FileOutputStream(printed), false, StandardCharsets.UTF_8)) {
            System.setOut(file);
            String[] again = arguments.clone();
            again[1] = small;
            main.invoke(null, (Object) again);
        } finally {
            System.setOut(usual);
        }
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        ByteBuffer number = ByteBuffer.allocate(8);
        try (BufferedReader lines = Files.newBufferedReader(printed.toPath())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("baseOffset: ")) {
                    digest.update(number.clear().putLong(Long.parseLong(word(line, "baseOffset: "))).array());
                } else if (line.contains(" payload: ")) {
                    digest.update(number.clear().putLong(Long.parseLong(word(line, "| offset: "))).array());
                    digest.update(word(line, " key: ").getBytes(StandardCharsets.UTF_8));
                    digest.update(line.substring(line.indexOf(" payload: ") + 10).getBytes(StandardCharsets.UTF_8));
                }
            }
        }
        Files.delete(printed.toPath());
        return Main.hex(digest);
    }

    private static String word(String line, String after) {
        int start = line.indexOf(after) + after.length();
        int end = line.indexOf(' ', start);
        return line.substring(start, end < 0 ? line.length() : end);
    }
}
