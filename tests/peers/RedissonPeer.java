import java.io.BufferedReader;
import java.io.FileReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Real RLocks for a test: HOST:PORT COMMANDS WATCHDOG_MS. Each line of the file COMMANDS is "NUMBER VERB KEY", and
 * each answer a line "NUMBER WORD". A thread of its own for each key, since an RLock belongs to a thread. A verb
 * behind "load-" is for a client that sends a script by SCRIPT LOAD first, without its keys, as Redisson 4 does.
 */
public final class RedissonPeer {
  private static final String LOAD = "load-";

  public static void main(String[] args) throws Exception {
    Map<Boolean, RedissonClient> clients = new ConcurrentHashMap<>();
    clients.put(false, connect(args, false));
    Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    say("0", "ready");
    try (BufferedReader commands = new BufferedReader(new FileReader(args[1]))) {
      for (String line = commands.readLine(); line != null; line = commands.readLine()) {
        String[] words = line.split(" ", 3);
        threads
            .computeIfAbsent(words[2], key -> Executors.newSingleThreadExecutor())
            .execute(
                () -> {
                  boolean loads = words[1].startsWith(LOAD);
                  RedissonClient client = clients.computeIfAbsent(loads, its -> connect(args, its));
                  say(words[0], answer(client, words[1].substring(loads ? LOAD.length() : 0), words[2]));
                });
      }
    }
  }

  private static RedissonClient connect(String[] args, boolean loads) {
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(args[2]));
    config.setNettyThreads(2).setThreads(2).setUseScriptCache(loads);
    config
        .useSingleServer()
        .setAddress("redis://" + args[0])
        .setConnectionMinimumIdleSize(1)
        .setConnectionPoolSize(8)
        .setSubscriptionConnectionMinimumIdleSize(1);
    return Redisson.create(config);
  }

  private static String answer(RedissonClient client, String verb, String key) {
    RLock lock = client.getLock(key);
    try {
      switch (verb) {
        case "try-fair":
          return client.getFairLock(key).tryLock() ? "yes" : "no";
        case "try-fenced":
          return client.getFencedLock(key).tryLock() ? "yes" : "no";
        case "try-spin":
          return client.getSpinLock(key).tryLock() ? "yes" : "no";
        case "try-read":
          return client.getReadWriteLock(key).readLock().tryLock() ? "yes" : "no";
        case "try-write":
          return client.getReadWriteLock(key).writeLock().tryLock() ? "yes" : "no";
        case "set-permits":
          return client.getSemaphore(key).trySetPermits(3) ? "yes" : "no";
        case "try-permit":
          return client.getSemaphore(key).tryAcquire() ? "yes" : "no";
        case "try-expiring":
          return client.getPermitExpirableSemaphore(key).tryAcquire() == null ? "no" : "yes";
        case "set-count":
          return client.getCountDownLatch(key).trySetCount(3) ? "yes" : "no";
        case "take":
          lock.lock();
          return "yes";
        case "try":
          return lock.tryLock() ? "yes" : "no";
        case "give":
          lock.unlock();
          return "yes";
        case "force":
          return lock.forceUnlock() ? "yes" : "no";
        default:
          return "unknown verb";
      }
    } catch (IllegalMonitorStateException notHeld) {
      return "no";
    } catch (Exception error) {
      return "error " + error.getMessage();
    }
  }

  private static synchronized void say(String number, String word) {
    System.out.println(number + " " + word);
    System.out.flush();
  }
}
