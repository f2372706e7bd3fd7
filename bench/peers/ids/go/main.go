// The Go peer of `make bench-peers-ids`: sonyflake, used as its own documentation shows. The flags and
// the line it prints are described in bench/peers/README.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/bits"
	"os"
	"time"

	"github.com/sony/sonyflake/v2"
)

// One clock reading for so many ids, so that it weighs little.
const batch = 1024

// generator is what is measured: next, and the time in an id, in milliseconds since 1970.
type generator struct {
	layout string
	cap    float64 // Ids per second.
	next   func() (int64, error)
	timeOf func(id int64) int64
}

func sony(sequence, machine int, unit time.Duration) (*generator, error) {
	ids, err := sonyflake.New(sonyflake.Settings{
		BitsSequence: sequence, BitsMachineID: machine, TimeUnit: unit,
		MachineID: func() (int, error) { return 1, nil }})
	if err != nil {
		return nil, err
	}
	layout := fmt.Sprintf("time:%d sequence:%d worker:%d", 63-sequence-machine, sequence, machine)
	if unit != time.Millisecond {
		layout += " unit:" + unit.String()
	}
	return &generator{
		layout: layout, cap: float64(int64(1)<<sequence) / unit.Seconds(), next: ids.NextID,
		timeOf: func(id int64) int64 { return ids.ToTime(id).UnixMilli() }}, nil
}

func open(name string) (*generator, error) {
	switch name {
	case "sonyflake": // Its defaults.
		return sony(8, 16, 10*time.Millisecond)
	case "sonyflake-twitter":
		return sony(12, 10, time.Millisecond)
	}
	return nil, fmt.Errorf("no generator %q", name)
}

// histogram counts times in buckets of at most 1/128 of their value.
type histogram struct {
	counts  [64 * 128]int64
	total   int64
	longest int64
}

func (h *histogram) add(nanoseconds int64) {
	at := nanoseconds
	if nanoseconds >= 256 {
		shift := bits.Len64(uint64(nanoseconds)) - 8
		at = int64(shift)<<7 + nanoseconds>>shift
	}
	h.counts[at]++
	h.total++
	h.longest = max(h.longest, nanoseconds)
}

func (h *histogram) at(share float64) int64 {
	left := int64(share * float64(h.total))
	for bucket, count := range h.counts {
		if left -= count; left < 0 {
			if bucket < 256 {
				return int64(bucket)
			}
			return int64(bucket&127+128) << (bucket>>7 - 1)
		}
	}
	return h.longest
}

type asking struct {
	*generator
	last, fell, ahead int64
}

func (a *asking) some() error {
	for range batch {
		id, err := a.next()
		if err != nil {
			return err
		}
		if id <= a.last {
			a.fell++
		}
		a.last = id
	}
	a.ahead = max(a.ahead, a.timeOf(a.last)-time.Now().UnixMilli())
	return nil
}

// during asks for so long, and returns ids per second.
func (a *asking) during(seconds float64) (float64, error) {
	begun, count := time.Now(), 0
	for {
		if err := a.some(); err != nil {
			return 0, err
		}
		count += batch
		if took := time.Since(begun).Seconds(); took >= seconds {
			return float64(count) / took, nil
		}
	}
}

func timed(next func() (int64, error), seconds float64) (*histogram, error) {
	times, begun := &histogram{}, time.Now()
	for {
		before := time.Now()
		if _, err := next(); err != nil {
			return nil, err
		}
		after := time.Now()
		times.add(after.Sub(before).Nanoseconds())
		if after.Sub(begun).Seconds() >= seconds {
			return times, nil
		}
	}
}

func run(name string, seconds, warmup float64) error {
	from, err := open(name)
	if err != nil {
		return err
	}
	asked := &asking{generator: from}
	if _, err = asked.during(warmup); err != nil {
		return err
	}
	rate, err := asked.during(seconds)
	if err != nil {
		return err
	}
	times, err := timed(from.next, seconds)
	if err != nil {
		return err
	}
	clock, err := timed(func() (int64, error) { return 0, nil }, 0.1)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"layout": from.layout, "cap": from.cap, "ids_per_s": rate, "ahead_ms": asked.ahead,
		"p50_ns": times.at(0.5), "p99_ns": times.at(0.99), "p9999_ns": times.at(0.9999),
		"max_ns": times.longest, "clock_ns": clock.at(0.5), "refused": 0, "fell": asked.fell})
}

func main() {
	name := flag.String("generator", "", "sonyflake or sonyflake-twitter")
	seconds := flag.Float64("seconds", 3, "how long to measure the rate, and the times of calls")
	warmup := flag.Float64("warmup", 0.3, "how long to ask before that")
	flag.Parse()
	if err := run(*name, *seconds, *warmup); err != nil {
		fmt.Fprintf(os.Stderr, "ids peer %s: %v\n", *name, err)
		os.Exit(1)
	}
}
