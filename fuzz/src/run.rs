//! The loop.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use crate::Target;
use crate::mutate::{Dice, mutated};

/// No input is longer, in bytes.
const LONGEST: usize = 1 << 14;
/// No input may take longer: far more than any does on a busy machine.
const SLOWEST: Duration = Duration::from_secs(5);
/// How many inputs are kept to change further.
const KEPT: usize = 4096;

/// Real inputs of the target called `name`.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let read = |entry: std::io::Result<fs::DirEntry>| fs::read(entry.unwrap().path()).unwrap();
    let mut inputs: Vec<Vec<u8>> = fs::read_dir(&folder).unwrap().map(read).collect();
    inputs.sort();
    inputs
}

/// Drives `target` with its corpus and with changed inputs, for `SPOKE_FUZZ_SECONDS`: a minute
/// where `CI` is set, otherwise five seconds. Returns how many inputs that were.
///
/// # Panics
/// Where the target does, after printing the input and `SPOKE_FUZZ_SEED`, which repeats it.
pub fn run(name: &str, target: Target) -> usize {
    let seeds = corpus(name);
    let mut pool = seeds.clone();
    let seed = number("SPOKE_FUZZ_SEED").unwrap_or_else(clock);
    let mut dice = Dice::new(seed);
    let end = Instant::now() + duration();
    seeds.iter().for_each(|input| try_one(name, target, input, seed));
    let mut count = seeds.len();
    while Instant::now() < end {
        let [one, other] = [&pool, &seeds].map(|from| &from[dice.below(from.len())]);
        let input = mutated(&mut dice, one, other, LONGEST);
        try_one(name, target, &input, seed);
        count += 1;
        // Changes of changes get deeper; the seeds stay, so that not all is noise in the end.
        match pool.len() {
            KEPT => pool.truncate(seeds.len()),
            _ if dice.below(16) == 0 => pool.push(input),
            _ => {}
        }
    }
    count
}

fn try_one(name: &str, target: Target, input: &[u8], seed: u64) {
    let start = Instant::now();
    let tried = catch_unwind(AssertUnwindSafe(|| target(input)));
    let slow = start.elapsed() > SLOWEST;
    if slow || tried.is_err() {
        let input = input.escape_ascii();
        let what = if slow { "takes long for" } else { "fails for" };
        std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("{name} {what} b\"{input}\" (SPOKE_FUZZ_SEED={seed})\n").as_bytes(),
        )
        .unwrap();
    }
    match tried {
        Err(panic) => resume_unwind(panic),
        Ok(()) => assert!(!slow, "{name} took {:?}", start.elapsed()),
    }
}

fn duration() -> Duration {
    let otherwise = if env::var_os("CI").is_some() { 60 } else { 5 };
    Duration::from_secs(number("SPOKE_FUZZ_SECONDS").unwrap_or(otherwise))
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or(1)
}
