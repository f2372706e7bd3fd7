// redsync and bsm/redislock for a test: HOST:PORT COMMANDS LEASE_MS redsync|redislock. See
// RedissonPeer.java for the lines.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type held struct {
	give, extend func() (bool, error)
}

var (
	mutex sync.Mutex
	locks = map[string]held{}
	lease time.Duration
	sync4 *redsync.Redsync
	plain *redislock.Client
)

func byRedsync(key string, tries int) (held, bool) {
	lock := sync4.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(tries),
		redsync.WithRetryDelay(20*time.Millisecond))
	if lock.Lock() != nil {
		return held{}, false
	}
	return held{lock.Unlock, lock.Extend}, true
}

func byRedislock(key string, tries int) (held, bool) {
	strategy := redislock.LimitRetry(redislock.LinearBackoff(20*time.Millisecond), tries-1)
	background := context.Background()
	patient, cancel := context.WithTimeout(background, time.Duration(tries)*20*time.Millisecond)
	defer cancel()
	lock, err := plain.Obtain(patient, key, lease, &redislock.Options{RetryStrategy: strategy})
	if err != nil {
		return held{}, false
	}
	return held{
		func() (bool, error) { err := lock.Release(background); return err == nil, err },
		func() (bool, error) { err := lock.Refresh(background, lease, nil); return err == nil, err },
	}, true
}

func answer(library, verb, key string) bool {
	if verb == "take" || verb == "try" {
		tries := map[string]int{"take": 3000, "try": 1}[verb]
		take := map[string]func(string, int) (held, bool){"redsync": byRedsync, "redislock": byRedislock}
		lock, got := take[library](key, tries)
		if got {
			mutex.Lock()
			locks[key] = lock
			mutex.Unlock()
		}
		return got
	}
	mutex.Lock()
	lock, known := locks[key]
	mutex.Unlock()
	if !known {
		return false
	}
	done := lock.give
	if verb == "extend" {
		done = lock.extend
	}
	ok, err := done()
	return ok && err == nil
}

func main() {
	ms, _ := strconv.Atoi(os.Args[3])
	lease = time.Duration(ms) * time.Millisecond
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	sync4 = redsync.New(goredis.NewPool(client))
	plain = redislock.New(client)
	commands, err := os.Open(os.Args[2])
	if err != nil {
		panic(err)
	}
	fmt.Println("0 ready")
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		words := strings.SplitN(lines.Text(), " ", 3)
		go func() {
			word := map[bool]string{true: "yes", false: "no"}[answer(os.Args[4], words[1], words[2])]
			fmt.Println(words[0] + " " + word)
		}()
	}
}
