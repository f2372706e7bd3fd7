// The Go peers of `make bench-peers`: redsync, bsm/redislock, etcd's concurrency package and Consul's
// API, each used as its own documentation shows. The flags and the line it prints are described in
// bench/peers/README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	consul "github.com/hashicorp/consul/api"
	"github.com/redis/go-redis/v9"
	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// acquire waits until the lock is held and returns the function that gives it back.
type acquire func(ctx context.Context, name string) (func() error, error)

// connect makes what one caller uses; the callers share the client behind it.
type connect func(ttl time.Duration) (acquire, error)

type options struct {
	lock, mode, store, prefix string
	callers, count            int
	seconds, warmup           float64
	ttl                       time.Duration
}

func main() {
	var o options
	var ttlMs int
	flag.StringVar(&o.lock, "lock", "", "redsync, redislock, etcd or consul")
	flag.StringVar(&o.mode, "mode", "own", "own, hot, new or hold")
	flag.StringVar(&o.store, "store", "", "HOST:PORT")
	flag.StringVar(&o.prefix, "prefix", "peer", "what names begin with")
	flag.IntVar(&o.callers, "callers", 1, "how many callers at once")
	flag.IntVar(&o.count, "count", 1, "how many locks to hold (mode hold)")
	flag.Float64Var(&o.seconds, "seconds", 2, "how long to measure")
	flag.Float64Var(&o.warmup, "warmup", 0.3, "how long to run before that")
	flag.IntVar(&ttlMs, "ttl-ms", 30000, "the lease")
	flag.Parse()
	o.ttl = time.Duration(ttlMs) * time.Millisecond
	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "peer %s: %v\n", o.lock, err)
		os.Exit(1)
	}
}

func run(o options) error {
	open, err := opener(o)
	if err != nil {
		return err
	}
	switch o.mode {
	case "own", "new", "hot", "hold":
	default:
		return fmt.Errorf("unknown --mode %q: use own, new, hot or hold", o.mode)
	}
	if o.mode == "hold" {
		return hold(o, open)
	}
	return measure(o, open)
}

func opener(o options) (connect, error) {
	switch o.lock {
	case "redsync":
		client := redis.NewClient(&redis.Options{Addr: o.store, PoolSize: o.callers})
		sync := redsync.New(goredis.NewPool(client))
		return func(ttl time.Duration) (acquire, error) {
			return func(ctx context.Context, name string) (func() error, error) {
				// Its default gives up after 32 tries: these callers wait until they have it.
				mutex := sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
				if err := mutex.LockContext(ctx); err != nil {
					return nil, err
				}
				return func() error { _, err := mutex.Unlock(); return err }, nil
			}, nil
		}, nil
	case "redislock":
		client := redis.NewClient(&redis.Options{Addr: o.store, PoolSize: o.callers})
		locker := redislock.New(client)
		return func(ttl time.Duration) (acquire, error) {
			return func(ctx context.Context, name string) (func() error, error) {
				// Without a deadline it waits no longer than the lease.
				patient, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				lock, err := locker.Obtain(patient, name, ttl, &redislock.Options{
					RetryStrategy: redislock.ExponentialBackoff(time.Millisecond, 64*time.Millisecond)})
				if err != nil {
					return nil, err
				}
				return func() error { return lock.Release(context.Background()) }, nil
			}, nil
		}, nil
	case "etcd":
		client, err := etcd.New(etcd.Config{Endpoints: []string{o.store}, DialTimeout: 5 * time.Second})
		if err != nil {
			return nil, err
		}
		return func(ttl time.Duration) (acquire, error) {
			// One session for each caller: the package counts a session's second lock of a name as held.
			session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second)))
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, name string) (func() error, error) {
				mutex := concurrency.NewMutex(session, "/"+name)
				if err := mutex.Lock(ctx); err != nil {
					return nil, err
				}
				return func() error { return mutex.Unlock(context.Background()) }, nil
			}, nil
		}, nil
	case "consul":
		config := consul.DefaultConfig()
		config.Address = o.store
		config.Transport.MaxIdleConnsPerHost = 512
		client, err := consul.NewClient(config)
		if err != nil {
			return nil, err
		}
		return func(ttl time.Duration) (acquire, error) {
			session, _, err := client.Session().CreateNoChecks(
				&consul.SessionEntry{TTL: ttl.String(), LockDelay: time.Millisecond}, nil)
			if err != nil {
				return nil, err
			}
			// Without it the session of one that waits for a killed holder ends with the holder's.
			go client.Session().RenewPeriodic(ttl.String(), session, nil, nil)
			return func(ctx context.Context, name string) (func() error, error) {
				lock, err := client.LockOpts(&consul.LockOptions{
					Key: name, Session: session, LockWaitTime: 15 * time.Second})
				if err != nil {
					return nil, err
				}
				held, err := lock.Lock(ctx.Done())
				if err == nil && held == nil {
					err = context.Canceled // It was told to stop waiting.
				}
				if err != nil {
					return nil, err
				}
				return lock.Unlock, nil
			}, nil
		}, nil
	}
	return nil, fmt.Errorf("unknown --lock %q: use redsync, redislock, etcd or consul", o.lock)
}

func nameOf(o options, caller int, pair int64) string {
	switch o.mode {
	case "hot":
		return o.prefix + "-hot"
	case "new":
		return fmt.Sprintf("%s-%d-%d", o.prefix, caller, pair)
	default:
		return fmt.Sprintf("%s-%d", o.prefix, caller)
	}
}

type tally struct {
	pairs   []float64 // Microseconds of each pair.
	longest float64   // The longest wait for a lock, in microseconds.
}

func measure(o options, open connect) error {
	var measuring atomic.Bool
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tallies := make([]tally, o.callers)
	failures := make(chan error, o.callers)
	var callers sync.WaitGroup
	for i := 0; i < o.callers; i++ {
		lock, err := open(o.ttl)
		if err != nil {
			return err
		}
		callers.Add(1)
		go func(caller int) {
			defer callers.Done()
			for pair := int64(0); ctx.Err() == nil; pair++ {
				counted := measuring.Load()
				begun := time.Now()
				release, err := lock(ctx, nameOf(o, caller, pair))
				if err != nil {
					if ctx.Err() == nil {
						failures <- err
					}
					return
				}
				waited := time.Since(begun)
				if err := release(); err != nil {
					failures <- err
					return
				}
				if counted && measuring.Load() {
					t := &tallies[caller]
					t.pairs = append(t.pairs, float64(time.Since(begun).Nanoseconds())/1e3)
					t.longest = max(t.longest, float64(waited.Nanoseconds())/1e3)
				}
			}
		}(i)
	}
	time.Sleep(time.Duration(o.warmup * float64(time.Second)))
	before, begun := cpu(), time.Now()
	measuring.Store(true)
	time.Sleep(time.Duration(o.seconds * float64(time.Second)))
	measuring.Store(false)
	used, elapsed := cpu()-before, time.Since(begun).Seconds()
	stop()
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second): // A library that does not heed its context.
	}
	select {
	case err := <-failures:
		return err
	default:
	}
	return report(o, tallies, elapsed, used)
}

func report(o options, tallies []tally, elapsed, used float64) error {
	var all []float64
	shares := []int{}
	longest := 0.0
	for _, t := range tallies {
		all = append(all, t.pairs...)
		shares = append(shares, len(t.pairs))
		longest = max(longest, t.longest)
	}
	if len(all) == 0 {
		return errors.New("not one pair in the time measured")
	}
	sort.Float64s(all)
	sort.Ints(shares)
	at := func(q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))] }
	line, err := json.Marshal(map[string]any{
		"pairs": len(all), "seconds": elapsed, "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99),
		"max_us": all[len(all)-1], "longest_wait_us": longest, "least_share": shares[0],
		"most_share": shares[len(shares)-1], "client_cpu_us": used * 1e6 / float64(len(all))})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

// hold takes --count locks, says so, and keeps them until standard input is closed.
func hold(o options, open connect) error {
	signal.Ignore(syscall.SIGPIPE)
	lock, err := open(o.ttl)
	if err != nil {
		return err
	}
	before := residentKiB()
	for i := 0; i < o.count; i++ {
		if _, err := lock(context.Background(), fmt.Sprintf("%s-%d", o.prefix, i)); err != nil {
			return err
		}
	}
	fmt.Printf("{\"held\": %d, \"rss_before_kib\": %d, \"rss_kib\": %d}\n", o.count, before, residentKiB())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// cpu returns the seconds of processor time that this process has used.
func cpu() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func residentKiB() int {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib
		}
	}
	return 0
}
