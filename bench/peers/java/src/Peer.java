import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.RetryOneTime;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The Java peers of `make bench-peers`: Redisson's locks and Curator's, used as their own documentation shows.
 * The flags and the line it prints are described in bench/peers/README.md.
 */
public final class Peer {
  /** Waits until the lock is held, and returns what gives it back. */
  interface Acquire {
    Release take(String name) throws Exception;
  }

  interface Release {
    void give() throws Exception;
  }

  private static final int WARMING = 0;
  private static final int MEASURING = 1;
  private static final int OVER = 2;
  private static volatile int phase = WARMING;

  /** What one caller saw. */
  static final class Tally {
    double[] pairs = new double[1024]; // Microseconds of each.
    int count = 0;
    double longest = 0;

    void add(double pair, double waited) {
      if (count == pairs.length) pairs = Arrays.copyOf(pairs, 2 * count);
      pairs[count++] = pair;
      longest = Math.max(longest, waited);
    }
  }

  private static final Set<String> FLAGS =
      Set.of("lock", "store", "mode", "callers", "count", "prefix", "seconds", "warmup", "ttl-ms");
  private static final Set<String> MODES = Set.of("own", "new", "hot", "hold");
  private static final Set<String> LOCKS =
      Set.of("redisson", "redisson-async", "redisson-fair", "redisson-fenced", "curator", "curator-semaphore-mutex");

  private final Map<String, String> flags = new HashMap<>();
  private final String lock;
  private final String mode;
  private final long ttlMs;
  private RedissonClient redisson;

  private Peer(String[] words) {
    for (int i = 0; i < words.length; i += 2) {
      String name = words[i].replaceFirst("^--", "");
      if (!FLAGS.contains(name) || i + 1 == words.length) throw unknown("flag, or it has no value", words[i]);
      flags.put(name, words[i + 1]);
    }
    lock = flags.getOrDefault("lock", "");
    mode = flags.getOrDefault("mode", "own");
    if (!LOCKS.contains(lock)) throw unknown("--lock", lock);
    if (!MODES.contains(mode)) throw unknown("--mode", mode);
    if (!flags.containsKey("store")) throw new IllegalArgumentException("--store HOST:PORT is needed");
    ttlMs = Long.parseLong(flags.getOrDefault("ttl-ms", "30000"));
  }

  private static IllegalArgumentException unknown(String what, String word) {
    return new IllegalArgumentException("unknown " + what + ": '" + word + "'");
  }

  private double number(String flag, double otherwise) {
    return flags.containsKey(flag) ? Double.parseDouble(flags.get(flag)) : otherwise;
  }

  private RLock redissonLock(String name) {
    if (lock.equals("redisson-fair")) return redisson.getFairLock(name);
    if (lock.equals("redisson-fenced")) return redisson.getFencedLock(name);
    return redisson.getLock(name);
  }

  private void openRedisson() {
    Config config = new Config();
    config.setLockWatchdogTimeout(ttlMs);
    config.useSingleServer().setAddress("redis://" + flags.get("store"));
    redisson = Redisson.create(config);
  }

  private Acquire open() throws Exception {
    if (lock.startsWith("redisson")) {
      openRedisson();
      return name -> {
        RLock one = redissonLock(name);
        one.lock();
        return one::unlock;
      };
    }
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(flags.get("store"), (int) ttlMs, 15000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    return name -> {
      InterProcessLock one =
          lock.equals("curator-semaphore-mutex")
              ? new InterProcessSemaphoreMutex(client, "/" + name)
              : new InterProcessMutex(client, "/" + name);
      one.acquire();
      return one::release;
    };
  }

  private String nameOf(int caller, long pair) {
    String prefix = flags.getOrDefault("prefix", "peer");
    if (mode.equals("hot")) return prefix + "-hot";
    if (mode.equals("new")) return prefix + "-" + caller + "-" + pair;
    return prefix + "-" + caller;
  }

  private void call(Acquire acquire, int caller, Tally tally) throws Exception {
    for (long pair = 0; phase != OVER; ++pair) {
      int counted = phase;
      long begun = System.nanoTime();
      Release release = acquire.take(nameOf(caller, pair));
      long held = System.nanoTime();
      release.give();
      if (counted == MEASURING && phase == MEASURING) {
        tally.add((System.nanoTime() - begun) / 1e3, (held - begun) / 1e3);
      }
    }
  }

  /** Redisson's asynchronous calls: each caller is a chain of stages, and has a number in place of a thread. */
  private void chain(int caller, long pair, Tally tally, AtomicLong running) {
    if (phase == OVER) {
      running.decrementAndGet();
      return;
    }
    int counted = phase;
    long begun = System.nanoTime();
    RLock one = redissonLock(nameOf(caller, pair));
    CompletionStage<Void> locked = one.lockAsync(caller + 1);
    locked
        .thenCompose(
            none -> {
              long held = System.nanoTime();
              return one.unlockAsync(caller + 1).thenApply(nothing -> held);
            })
        .whenComplete(
            (held, error) -> {
              if (error != null) fail(error);
              if (counted == MEASURING && phase == MEASURING) {
                tally.add((System.nanoTime() - begun) / 1e3, (held - begun) / 1e3);
              }
              chain(caller, pair + 1, tally, running);
            });
  }

  private void fail(Throwable error) {
    System.err.println("peer " + lock + ": " + error);
    Runtime.getRuntime().halt(1);
  }

  private void measure() throws Exception {
    int callers = (int) number("callers", 1);
    Tally[] tallies = new Tally[callers];
    Thread[] threads = new Thread[callers];
    AtomicLong running = new AtomicLong(callers);
    boolean chained = lock.equals("redisson-async");
    Acquire acquire = open();
    for (int i = 0; i < callers; ++i) {
      int caller = i;
      Tally tally = tallies[i] = new Tally();
      if (chained) {
        chain(caller, 0, tally, running);
        continue;
      }
      threads[i] =
          new Thread(
              () -> {
                try {
                  call(acquire, caller, tally);
                } catch (Exception error) {
                  fail(error);
                }
              });
      threads[i].start();
    }
    Thread.sleep((long) (1000 * number("warmup", 0.3)));
    double used = cpu();
    long begun = System.nanoTime();
    phase = MEASURING;
    Thread.sleep((long) (1000 * number("seconds", 2)));
    phase = OVER;
    used = cpu() - used;
    double elapsed = (System.nanoTime() - begun) / 1e9;
    for (Thread thread : threads) if (thread != null) thread.join(10000);
    while (chained && running.get() > 0) Thread.sleep(10);
    report(tallies, elapsed, used);
  }

  private void report(Tally[] tallies, double elapsed, double used) {
    double[] all =
        Arrays.stream(tallies).flatMapToDouble(tally -> Arrays.stream(tally.pairs, 0, tally.count)).sorted().toArray();
    if (all.length == 0) fail(new IllegalStateException("not one pair in the time measured"));
    double longest = Arrays.stream(tallies).mapToDouble(tally -> tally.longest).max().orElse(0);
    int least = Arrays.stream(tallies).mapToInt(tally -> tally.count).min().orElse(0);
    int most = Arrays.stream(tallies).mapToInt(tally -> tally.count).max().orElse(0);
    System.out.printf(
        Locale.ROOT,
        "{\"pairs\": %d, \"seconds\": %.6f, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f,"
            + " \"longest_wait_us\": %.1f, \"least_share\": %d, \"most_share\": %d, \"client_cpu_us\": %.3f}%n",
        all.length, elapsed, at(all, 0.5), at(all, 0.9), at(all, 0.99), all[all.length - 1], longest, least, most,
        used * 1e6 / all.length);
  }

  private static double at(double[] all, double share) {
    return all[Math.min(all.length - 1, (int) (share * all.length))];
  }

  /** Takes `count` locks, says so, and keeps them until standard input is closed. */
  private void hold() throws Exception {
    Acquire acquire = open();
    int count = (int) number("count", 1);
    System.gc();
    long before = residentKib();
    for (int i = 0; i < count; ++i) acquire.take(flags.getOrDefault("prefix", "peer") + "-" + i);
    System.out.printf(
        "{\"held\": %d, \"rss_before_kib\": %d, \"rss_kib\": %d}%n", count, before, residentKib());
    System.out.flush();
    System.in.readAllBytes();
  }

  private static double cpu() throws Exception {
    String[] words = Files.readString(Path.of("/proc/self/stat")).replaceFirst("^.*\\) ", "").split(" ");
    return (Long.parseLong(words[11]) + Long.parseLong(words[12])) / 100.0;
  }

  private static long residentKib() throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("\\D", ""));
    }
    return 0;
  }

  public static void main(String[] words) {
    try {
      Peer peer = new Peer(words);
      if (peer.mode.equals("hold")) {
        peer.hold();
      } else {
        peer.measure();
      }
    } catch (Exception error) {
      System.err.println("peer: " + error);
      Runtime.getRuntime().halt(1);
    }
    // Some of these clients leave threads behind that would keep the process.
    System.exit(0);
  }
}
