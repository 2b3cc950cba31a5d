//! `cargo xtask bench micro`: the parts that work for each sample, one operation at a time, and the
//! library's size. With `--check` what noise can't move is held against bounds; `cargo xtask test`
//! does so for what is quickly counted, as it is built for tests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rig::{Rig, Unavailable};

use crate::product::cargo;
use crate::{callgrind, workspace};

/// How far a count may be off before somebody has to look: compilers differ, too.
const TOLERANCE: f64 = 0.2;
/// What the agent may weigh without debug information: it is in each image.
const LIBRARY_BYTES_MAX: u64 = 4 << 20;

/// What an operation costs: a change in either direction is to be seen, and to be written here.
struct Expected {
    name: &'static str,
    /// As it is built for users.
    instructions: u64,
    /// As it is built for tests; `None` where counting takes too long for each change.
    in_tests: Option<u64>,
    /// Calls of the allocator, a hundredth is rounded off.
    allocator: f64,
}

const EXPECTED: [Expected; 9] = [
    Expected { name: "walk", instructions: 9_170, in_tests: Some(13_893), allocator: 0.0 },
    Expected { name: "walk-new", instructions: 19_850, in_tests: Some(27_453), allocator: 0.0 },
    Expected { name: "ring", instructions: 556, in_tests: Some(940), allocator: 0.0 },
    Expected { name: "table", instructions: 320, in_tests: Some(403), allocator: 0.0 },
    Expected { name: "name", instructions: 82, in_tests: Some(128), allocator: 0.0 },
    Expected { name: "charge", instructions: 2_068, in_tests: Some(3_473), allocator: 0.0 },
    Expected { name: "charge-new", instructions: 12_096, in_tests: None, allocator: 3.328 },
    Expected { name: "pprof", instructions: 1_295_855, in_tests: None, allocator: 668.0 },
    Expected { name: "waiting", instructions: 27_796_115, in_tests: None, allocator: 282.0 },
];

/// Measures, prints a table, and with `check` holds it against the bounds.
pub fn run(target: &Path, check: bool) -> Result<()> {
    cargo(&["build", "--release", "--package", "micro", "--example", "count"])?;
    let program = target.join("release/examples/count");
    let out = target.join("bench/micro.callgrind");
    std::fs::create_dir_all(target.join("bench"))?;
    println!("\n| operation | instructions | calls of the allocator | ns |\n|---|---|---|---|");
    let mut wrong = Vec::new();
    for expected in &EXPECTED {
        let (each, allocator) = measured(expected, &program, &out)?;
        wrong.extend(expected.differs(expected.instructions, each, allocator));
    }
    let bytes = library_bytes(target)?;
    if let Some(bytes) = bytes {
        println!("\nlibcorprof.so: {bytes} bytes without debug information");
        wrong.extend(too_large(bytes));
    }
    if check { told(&wrong) } else { Ok(()) }
}

/// Holds what is quickly counted against its bounds, in the programs that were built with the
/// tests, and the size of the library that was built.
pub fn check_tests(target: &Path) -> Result<()> {
    let program = target.join("debug/examples/count");
    let out = target.join("bench/micro-tests.callgrind");
    std::fs::create_dir_all(target.join("bench"))?;
    ensure!(
        program.is_file(),
        "there is no {}; build it with the tests: cargo test --workspace --no-run",
        program.display()
    );
    let (mut wrong, mut is_counted) = (Vec::new(), true);
    for expected in &EXPECTED {
        let Some(instructions) = expected.in_tests else { continue };
        let (each, allocator) = measured(expected, &program, &out)?;
        is_counted &= each.is_some();
        wrong.extend(expected.differs(instructions, each, allocator));
    }
    if !is_counted {
        let what = "valgrind".to_owned();
        let reason = "instructions are not counted; install it (apt-get install valgrind)";
        Rig::ensure()?.skip("costs", &Unavailable { what, reason: reason.to_owned() });
    }
    wrong.extend(library_bytes(target)?.and_then(too_large));
    told(&wrong)
}

fn told(wrong: &[String]) -> Result<()> {
    if !wrong.is_empty() {
        bail!(
            "costs have changed; if that is meant, say so in xtask/src/micro_cost.rs:\n  {}",
            wrong.join("\n  ")
        );
    }
    Ok(())
}

/// The instructions of an operation, if they can be counted, and its calls of the allocator. Prints
/// a line of the table.
fn measured(expected: &Expected, program: &Path, out: &Path) -> Result<(Option<u64>, f64)> {
    let name = expected.name;
    let (times, allocator, nanos) = counted(program, name)?;
    let all = callgrind::instructions(program, [name], "count::counted*", out)?;
    let each = all.map(|all| all / times);
    let shown = each.map_or("not counted".to_owned(), |each| each.to_string());
    println!("| {name} | {shown} | {allocator:.2} | {nanos:.0} |");
    Ok((each, allocator))
}

fn too_large(bytes: u64) -> Option<String> {
    (bytes > LIBRARY_BYTES_MAX)
        .then(|| format!("the library has {bytes} bytes, more than {LIBRARY_BYTES_MAX}"))
}

impl Expected {
    /// What is not as expected, if anything.
    fn differs(&self, expected: u64, found: Option<u64>, allocator: f64) -> Option<String> {
        let name = self.name;
        if (allocator - self.allocator).abs() > 0.01 * self.allocator.max(1.0) {
            let expected = self.allocator;
            return Some(format!("{name}: {allocator} calls of the allocator, not {expected}"));
        }
        let found = found?;
        let ratio = found as f64 / expected as f64;
        let good = (1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio);
        (!good).then(|| format!("{name}: {found} instructions, not some {expected}"))
    }
}

/// How often an operation was counted, the allocator's calls of one, and its nanoseconds.
fn counted(program: &Path, name: &str) -> Result<(u64, f64, f64)> {
    let output = Command::new(program).arg(name).output().context("count")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "count {name} failed: {errors}");
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace();
    let mut next = || words.next().with_context(|| format!("count said {text:?}"));
    Ok((next()?.parse()?, next()?.parse()?, next()?.parse()?))
}

/// The agent's size without debug information; `None`, loudly, if it isn't there or can't be told.
fn library_bytes(target: &Path) -> Result<Option<u64>> {
    let library = target.join("release/libcorprof.so");
    let stripped = target.join("bench/stripped.so");
    let mut command = Command::new("strip");
    command.arg("-o").arg(&stripped).arg(&library).current_dir(workspace::root());
    match command.output() {
        Ok(output) if output.status.success() => Ok(Some(std::fs::metadata(&stripped)?.len())),
        _ => {
            eprintln!("SKIPPED: no strip, or no {}, to tell its size", library.display());
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_either_way_is_told() {
        let of = |allocator| Expected { name: "x", instructions: 0, in_tests: None, allocator };
        let expected = of(0.0);
        assert_eq!(expected.differs(1_000, Some(1_100), 0.0), None);
        assert_eq!(expected.differs(1_000, None, 0.0), None);
        for (instructions, allocator) in [(1_300, 0.0), (700, 0.0), (1_000, 0.02)] {
            assert!(expected.differs(1_000, Some(instructions), allocator).is_some());
        }
        let some = of(500.0);
        assert_eq!(some.differs(1_000, Some(1_000), 503.0), None);
        assert!(some.differs(1_000, Some(1_000), 400.0).is_some());
        assert_eq!(too_large(LIBRARY_BYTES_MAX), None);
        assert!(too_large(LIBRARY_BYTES_MAX + 1).is_some());
    }
}
