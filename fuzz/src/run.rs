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
/// How many inputs a test tries; [`run`] says so.
const TRIED: usize = 40_000;
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

/// How long a run lasts.
enum Length {
    /// So many inputs, the same ones each time: a test that fails does so because of a change.
    Inputs(usize),
    /// Until then, with new random inputs.
    Until(Instant),
}

impl Length {
    fn is_over(&self, tried: usize) -> bool {
        match self {
            Self::Inputs(count) => tried >= *count,
            Self::Until(end) => Instant::now() >= *end,
        }
    }
}

/// Drives `target` with its corpus and with changed inputs: the same 40,000 each time,
/// or new ones for `SPOKE_FUZZ_SECONDS`. Returns how many inputs that were.
///
/// # Panics
/// Where the target does, after printing the input and `SPOKE_FUZZ_SEED`, which repeats it.
pub fn run(name: &str, target: Target) -> usize {
    let seeds = corpus(name);
    let mut pool = seeds.clone();
    let (length, seed) = match number("SPOKE_FUZZ_SECONDS") {
        Some(seconds) => (Length::Until(Instant::now() + Duration::from_secs(seconds)), clock()),
        None => (Length::Inputs(TRIED), 1),
    };
    let seed = number("SPOKE_FUZZ_SEED").unwrap_or(seed);
    let mut dice = Dice::new(seed);
    seeds.iter().for_each(|input| try_one(name, target, input, seed));
    let mut count = seeds.len();
    while !length.is_over(count) {
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

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or(1)
}
