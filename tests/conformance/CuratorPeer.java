import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/** Holds a lock by Curator's recipe until a file appears: HOSTS PATH FILE mutex|read|write. */
public final class CuratorPeer {
  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], 30000, 30000, new RetryOneTime(100));
    client.start();
    InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, args[1]);
    InterProcessLock lock =
        args[3].equals("mutex") ? new InterProcessMutex(client, args[1])
            : args[3].equals("read") ? both.readLock() : both.writeLock();
    lock.acquire();
    System.out.println("held");
    System.out.flush();
    while (!Files.exists(Path.of(args[2]))) Thread.sleep(10);
    lock.release();
    System.out.println("released");
    System.out.flush();
    client.close();
  }
}
