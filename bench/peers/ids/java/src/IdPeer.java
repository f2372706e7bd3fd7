import com.github.yitter.contract.IdGeneratorOptions;
import com.github.yitter.idgen.YitIdHelper;
import com.xfvape.uid.exception.UidGenerateException;
import com.xfvape.uid.impl.CachedUidGenerator;
import com.xfvape.uid.impl.DefaultUidGenerator;
import com.xfvape.uid.utils.DateUtils;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.LongUnaryOperator;

/**
 * The Java peers of `make bench-peers-ids`: UidGenerator and yitter, used as their own documentation shows. The
 * flags and the line it prints are described in bench/peers/README.md.
 */
public final class IdPeer {
  /** One clock reading for so many ids, so that it weighs little. */
  private static final int BATCH = 1024;

  /** The ids and the time in each, in milliseconds since 1970; `cap` in ids per second. */
  record Generator(String layout, double cap, LongSupplier next, LongUnaryOperator timeOf) {}

  /** Counts times in buckets of at most 1/128 of their value. */
  static final class Histogram {
    private final long[] counts = new long[64 * 128];
    private long total = 0;
    private long longest = 0;

    void add(long nanoseconds) {
      int shift = 56 - Long.numberOfLeadingZeros(nanoseconds);
      counts[nanoseconds < 256 ? (int) nanoseconds : (shift << 7) + (int) (nanoseconds >> shift)]++;
      ++total;
      longest = Math.max(longest, nanoseconds);
    }

    long at(double share) {
      long left = (long) (share * total);
      for (int bucket = 0; bucket < counts.length; ++bucket) {
        left -= counts[bucket];
        if (left < 0) return bucket < 256 ? bucket : (bucket & 127) + 128L << (bucket >> 7) - 1;
      }
      return longest;
    }
  }

  private long last = 0;
  private long fell = 0;
  private long ahead = 0;
  private long refused = 0;

  private static Generator yitter(int workerBits, int sequenceBits) {
    IdGeneratorOptions options = new IdGeneratorOptions((short) 1);
    options.WorkerIdBitLength = (byte) workerBits;
    options.SeqBitLength = (byte) sequenceBits;
    options.BaseTime = 1582136402000L; // Its default, named so that the time in an id can be told.
    YitIdHelper.setIdGenerator(options);
    int shift = workerBits + sequenceBits;
    return new Generator(
        String.format("time:%d worker:%d sequence:%d", 63 - shift, workerBits, sequenceBits),
        1000.0 * ((1 << sequenceBits) - options.MinSeqNumber),
        YitIdHelper::nextId,
        id -> (id >> shift) + options.BaseTime);
  }

  /** With the bits and the epoch that its README sets: the defaults' 28 bits of seconds ended in 2024. */
  private Generator uid(DefaultUidGenerator ids) throws Exception {
    int timeBits = 29;
    int workerBits = 21;
    int sequenceBits = 13;
    String epoch = "2016-09-20";
    ids.setTimeBits(timeBits);
    ids.setWorkerBits(workerBits);
    ids.setSeqBits(sequenceBits);
    ids.setEpochStr(epoch);
    ids.setWorkerIdAssigner(() -> 1); // Its own takes a number from a table at each start.
    ids.afterPropertiesSet();
    long epochMs = DateUtils.parseByDayPattern(epoch).getTime();
    return new Generator(
        String.format("time:%d worker:%d sequence:%d unit:1s", timeBits, workerBits, sequenceBits),
        1 << sequenceBits,
        () -> patiently(ids),
        id -> (id >>> workerBits + sequenceBits) * 1000 + epochMs);
  }

  /** The cached generator throws when its ring is empty; a caller that needs an id asks again. */
  private long patiently(DefaultUidGenerator ids) {
    while (true) {
      try {
        return ids.getUID();
      } catch (UidGenerateException empty) {
        ++refused;
      }
    }
  }

  private Generator open(String name) throws Exception {
    return switch (name) {
      case "yitter" -> yitter(6, 6); // Its defaults.
      case "yitter-twitter" -> yitter(10, 12);
      case "uid-default" -> uid(new DefaultUidGenerator());
      case "uid-cached" -> uid(new CachedUidGenerator());
      default -> throw new IllegalArgumentException("no generator '" + name + "'");
    };
  }

  private void some(Generator from) {
    for (int i = 0; i < BATCH; ++i) {
      long id = from.next().getAsLong();
      if (id <= last) ++fell;
      last = id;
    }
    ahead = Math.max(ahead, from.timeOf().applyAsLong(last) - System.currentTimeMillis());
  }

  /** Asks for so long, and returns ids per second. */
  private double during(Generator from, double seconds) {
    long begun = System.nanoTime();
    for (long count = BATCH; ; count += BATCH) {
      some(from);
      double took = (System.nanoTime() - begun) / 1e9;
      if (took >= seconds) return count / took;
    }
  }

  private static void time(LongSupplier next, double seconds, Histogram times) {
    long begun = System.nanoTime();
    long after = begun;
    while ((after - begun) / 1e9 < seconds) {
      long before = System.nanoTime();
      long id = next.getAsLong();
      after = System.nanoTime();
      times.add(after - before);
      if (id == Long.MIN_VALUE) throw new IllegalStateException("no id");
    }
  }

  private void run(String name, double seconds, double warmup) throws Exception {
    Generator from = open(name);
    during(from, warmup);
    refused = 0;
    double rate = during(from, seconds);
    long refusedInTime = refused;
    time(from.next(), warmup / 4, new Histogram()); // For the compiler.
    Histogram times = new Histogram();
    time(from.next(), seconds, times);
    Histogram clock = new Histogram();
    time(() -> 0, 0.1, clock);
    System.out.printf(
        Locale.ROOT,
        "{\"layout\": \"%s\", \"cap\": %.1f, \"ids_per_s\": %.1f, \"ahead_ms\": %d, \"p50_ns\": %d, \"p99_ns\": %d, "
            + "\"p9999_ns\": %d, \"max_ns\": %d, \"clock_ns\": %d, \"refused\": %d, \"fell\": %d}%n",
        from.layout(), from.cap(), rate, ahead, times.at(0.5), times.at(0.99), times.at(0.9999), times.longest,
        clock.at(0.5), refusedInTime, fell);
  }

  public static void main(String[] words) {
    Map<String, String> flags = new HashMap<>();
    for (int i = 0; i + 1 < words.length; i += 2) flags.put(words[i].substring(2), words[i + 1]);
    try {
      new IdPeer()
          .run(
              flags.get("generator"),
              Double.parseDouble(flags.getOrDefault("seconds", "3")),
              Double.parseDouble(flags.getOrDefault("warmup", "2")));
    } catch (Exception failure) {
      System.err.println("ids peer " + flags.get("generator") + ": " + failure);
      System.exit(1);
    }
    System.exit(0); // The ring's threads are no daemons.
  }
}
