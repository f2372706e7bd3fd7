//! The Rust peer of `make bench-peers`: rslock, used as its own documentation shows. The flags and the
//! line it prints are described in bench/peers/README.md.

use rslock::LockManager;
use std::collections::HashMap;
use std::process::exit;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

const FLAGS: [&str; 9] =
    ["lock", "store", "mode", "callers", "count", "prefix", "seconds", "warmup", "ttl-ms"];
const MODES: [&str; 4] = ["own", "new", "hot", "hold"];
const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

#[derive(Clone)]
struct Options {
    mode: String,
    prefix: String,
    callers: usize,
    count: usize,
    seconds: f64,
    warmup: f64,
    ttl: Duration,
}

#[derive(Default)]
struct Tally {
    pairs: Vec<f64>, // Microseconds of each pair.
    longest: f64,    // The longest wait for a lock, in microseconds.
}

fn fail(message: String) -> ! {
    eprintln!("peer rslock: {message}");
    exit(1)
}

fn flags() -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let Some(name) = flag.strip_prefix("--") else { fail(format!("'{flag}' is no flag")) };
        if !FLAGS.contains(&name) {
            fail(format!("unknown flag {flag}"));
        }
        let Some(value) = words.next() else { fail(format!("{flag} needs a value")) };
        found.insert(name.to_string(), value);
    }
    found
}

fn number<T: std::str::FromStr>(flags: &HashMap<String, String>, name: &str, otherwise: T) -> T {
    match flags.get(name) {
        None => otherwise,
        Some(text) => text.parse().unwrap_or_else(|_| fail(format!("--{name} {text}: no number"))),
    }
}

fn name_of(options: &Options, caller: usize, pair: u64) -> String {
    match options.mode.as_str() {
        "hot" => format!("{}-hot", options.prefix),
        "new" => format!("{}-{}-{}", options.prefix, caller, pair),
        _ => format!("{}-{}", options.prefix, caller),
    }
}

async fn call(manager: LockManager, options: Options, caller: usize, phase: Arc<AtomicU8>) -> Tally {
    let mut tally = Tally::default();
    for pair in 0u64.. {
        let counted = phase.load(Ordering::Relaxed);
        if counted == OVER {
            break;
        }
        let begun = Instant::now();
        let name = name_of(&options, caller, pair);
        let lock = match manager.lock(name.as_bytes(), options.ttl).await {
            Ok(lock) => lock,
            // Its tries have run out: these callers wait until they have the lock.
            Err(_) if options.mode == "hot" => continue,
            Err(error) => fail(format!("{name}: {error}")),
        };
        let waited = begun.elapsed();
        manager.unlock(&lock).await;
        if counted == MEASURING && phase.load(Ordering::Relaxed) == MEASURING {
            tally.pairs.push(begun.elapsed().as_secs_f64() * 1e6);
            tally.longest = tally.longest.max(waited.as_secs_f64() * 1e6);
        }
    }
    tally
}

async fn measure(manager: LockManager, options: Options) {
    let phase = Arc::new(AtomicU8::new(WARMING));
    let callers: Vec<_> = (0..options.callers)
        .map(|caller| tokio::spawn(call(manager.clone(), options.clone(), caller, phase.clone())))
        .collect();
    tokio::time::sleep(Duration::from_secs_f64(options.warmup)).await;
    let (before, begun) = (cpu(), Instant::now());
    phase.store(MEASURING, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    phase.store(OVER, Ordering::Relaxed);
    let (used, elapsed) = (cpu() - before, begun.elapsed().as_secs_f64());
    let mut pairs = Vec::new();
    let mut shares = Vec::new();
    let mut longest: f64 = 0.0;
    for caller in callers {
        let tally = caller.await.unwrap_or_else(|error| fail(error.to_string()));
        shares.push(tally.pairs.len());
        longest = longest.max(tally.longest);
        pairs.extend(tally.pairs);
    }
    if pairs.is_empty() {
        fail("not one pair in the time measured".to_string());
    }
    pairs.sort_by(f64::total_cmp);
    let at = |q: f64| pairs[((q * pairs.len() as f64) as usize).min(pairs.len() - 1)];
    println!(
        "{{\"pairs\": {}, \"seconds\": {:.6}, \"p50_us\": {:.1}, \"p90_us\": {:.1}, \"p99_us\": {:.1}, \
         \"max_us\": {:.1}, \"longest_wait_us\": {:.1}, \"least_share\": {}, \"most_share\": {}, \
         \"client_cpu_us\": {:.3}}}",
        pairs.len(),
        elapsed,
        at(0.5),
        at(0.9),
        at(0.99),
        pairs[pairs.len() - 1],
        longest,
        shares.iter().min().unwrap(),
        shares.iter().max().unwrap(),
        used * 1e6 / pairs.len() as f64
    );
}

/// Takes `count` locks, says so, and keeps them until standard input is closed.
async fn hold(manager: LockManager, options: Options) {
    let before = resident_kib();
    let mut locks = Vec::new();
    for i in 0..options.count {
        let name = format!("{}-{}", options.prefix, i);
        loop {
            match manager.lock(name.as_bytes(), options.ttl).await {
                Ok(lock) => break locks.push(lock),
                Err(_) if options.count == 1 => continue,
                Err(error) => fail(format!("{name}: {error}")),
            }
        }
    }
    let after = resident_kib();
    println!("{{\"held\": {}, \"rss_before_kib\": {before}, \"rss_kib\": {after}}}", options.count);
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
}

/// The seconds of processor time that this process has used.
fn cpu() -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() {
    let flags = flags();
    let options = Options {
        mode: flags.get("mode").cloned().unwrap_or("own".to_string()),
        prefix: flags.get("prefix").cloned().unwrap_or("peer".to_string()),
        callers: number(&flags, "callers", 1),
        count: number(&flags, "count", 1),
        seconds: number(&flags, "seconds", 2.0),
        warmup: number(&flags, "warmup", 0.3),
        ttl: Duration::from_millis(number(&flags, "ttl-ms", 30000)),
    };
    if !MODES.contains(&options.mode.as_str()) {
        fail(format!("unknown --mode {}: use {}", options.mode, MODES.join(", ")));
    }
    if flags.get("lock").is_some_and(|lock| lock != "rslock") {
        fail("unknown --lock: use rslock".to_string());
    }
    let Some(store) = flags.get("store") else { fail("--store HOST:PORT is needed".to_string()) };
    let manager = LockManager::new(vec![format!("redis://{store}/")]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| fail(error.to_string()));
    if options.mode == "hold" {
        runtime.block_on(hold(manager, options));
    } else {
        runtime.block_on(measure(manager, options));
    }
}
