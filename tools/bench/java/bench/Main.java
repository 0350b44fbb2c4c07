package bench;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;

/**
 * A contestant that is Java: `java bench.Main REPLIES JOB ARGUMENT...` prepares one job, writes `ready CHECK` to the file
 * REPLIES, and answers each line of standard input: a number runs the job that many times and gives the CPU time of the
 * thread and of the process (with the garbage collector and the compiler) in nanoseconds; `memory` what a result keeps
 * on the heap and how much making one allocates. tools/bench/worker.py speaks the same.
 */
public final class Main {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final long KEPT_BYTES = 64 << 20;

    /** Results land here, so that no work can be left out as useless. */
    static volatile Object sink;

    public static void main(String[] args) throws Exception {
        try (PrintStream replies = new PrintStream(new FileOutputStream(args[0]), true, StandardCharsets.UTF_8)) {
            Job job = job(args);
            replies.println("ready " + job.check());
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                replies.println(line.equals("memory") ? memory(job) : time(job, Integer.parseInt(line)));
            }
        }
    }

    private static Job job(String[] args) throws Exception {
        return switch (args[1]) {
            case "decode", "encode", "send" -> Codecs.job(args[1], args[2], Short.parseShort(args[3]), read(args[4]));
            case "records" -> new Records(read(args[2]), Boolean.parseBoolean(args[3]), args[4].equals("headers"));
            case "values" -> new LogValues(read(args[2]), read(args[3]));
            case "dump" -> new Dump(args[2], args[3], java.util.Arrays.copyOfRange(args, 4, args.length));
            default -> throw new IllegalArgumentException("no job " + args[1]);
        };
    }

    private static byte[] read(String path) throws Exception {
        return Files.readAllBytes(Path.of(path));
    }

    private static String time(Job job, int times) throws Exception {
        long process = PROCESS.getProcessCpuTime();
        long thread = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < times; i++) {
            sink = job.run();
        }
        thread = THREADS.getCurrentThreadCpuTime() - thread;
        return thread + " " + (PROCESS.getProcessCpuTime() - process);
    }

    private static String memory(Job job) throws Exception {
        sink = null;
        long self = Thread.currentThread().getId();
        long allocated = THREADS.getThreadAllocatedBytes(self);
        sink = job.run();
        allocated = THREADS.getThreadAllocatedBytes(self) - allocated;
        Object[] kept = new Object[(int) Math.max(100, Math.min(100_000, KEPT_BYTES / Math.max(1, allocated)))];
        long before = used();
        for (int i = 0; i < kept.length; i++) {
            kept[i] = job.run();
        }
        long retained = (used() - before) / kept.length;
        sink = kept;
        return retained + " 0 " + allocated;
    }

    private static long used() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    static String hex(MessageDigest digest) {
        return HexFormat.of().formatHex(digest.digest());
    }
}
