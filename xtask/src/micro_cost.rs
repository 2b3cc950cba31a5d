//! `cargo xtask bench micro`: the parts that work for each sample, one operation at a time, and the
//! library's size. With `--check` what noise can't move is held against bounds.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::product::cargo;
use crate::{callgrind, workspace};

/// How far a count may be off before somebody has to look: compilers differ, too.
const TOLERANCE: f64 = 0.2;
/// What the agent may weigh without debug information: it is in each image.
const LIBRARY_BYTES_MAX: u64 = 4 << 20;

/// What an operation costs: a change in either direction is to be seen, and to be written here.
struct Expected {
    name: &'static str,
    instructions: u64,
    /// Calls of the allocator, a hundredth is rounded off.
    allocator: f64,
}

const EXPECTED: [Expected; 8] = [
    Expected { name: "walk", instructions: 9_130, allocator: 0.0 },
    Expected { name: "walk-new", instructions: 19_890, allocator: 0.0 },
    Expected { name: "ring", instructions: 550, allocator: 0.0 },
    Expected { name: "table", instructions: 318, allocator: 0.0 },
    Expected { name: "name", instructions: 81, allocator: 0.0 },
    // These two are of before a sample's buffers were kept for the next one.
    Expected { name: "charge", instructions: 8_840, allocator: 6.0 },
    Expected { name: "charge-new", instructions: 11_896, allocator: 7.83 },
    Expected { name: "pprof", instructions: 21_142_416, allocator: 548.0 },
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
        let name = expected.name;
        let (times, allocator, nanos) = counted(&program, name)?;
        let all = callgrind::instructions(&program, [name], "count::counted*", &out)?;
        let each = all.map(|all| all / times);
        let shown = each.map_or("not counted".to_owned(), |each| each.to_string());
        println!("| {name} | {shown} | {allocator:.2} | {nanos:.0} |");
        wrong.extend(expected.differs(each, allocator));
    }
    let bytes = library_bytes(target)?;
    if let Some(bytes) = bytes {
        println!("\nlibcorprof.so: {bytes} bytes without debug information");
        if bytes > LIBRARY_BYTES_MAX {
            wrong.push(format!("the library has {bytes} bytes, more than {LIBRARY_BYTES_MAX}"));
        }
    }
    if check && !wrong.is_empty() {
        bail!(
            "costs have changed; if that is meant, say so in xtask/src/micro_cost.rs:\n  {}",
            wrong.join("\n  ")
        );
    }
    Ok(())
}

impl Expected {
    /// What is not as expected, if anything.
    fn differs(&self, instructions: Option<u64>, allocator: f64) -> Option<String> {
        let Self { name, instructions: expected, .. } = self;
        if (allocator - self.allocator).abs() > 0.01 * self.allocator.max(1.0) {
            let expected = self.allocator;
            return Some(format!("{name}: {allocator} calls of the allocator, not {expected}"));
        }
        let found = instructions?;
        let ratio = found as f64 / *expected as f64;
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
        let expected = Expected { name: "x", instructions: 1_000, allocator: 0.0 };
        assert_eq!(expected.differs(Some(1_100), 0.0), None);
        assert_eq!(expected.differs(None, 0.0), None);
        for (instructions, allocator) in [(1_300, 0.0), (700, 0.0), (1_000, 0.02)] {
            assert!(expected.differs(Some(instructions), allocator).is_some());
        }
        let some = Expected { name: "x", instructions: 1_000, allocator: 500.0 };
        assert_eq!(some.differs(Some(1_000), 503.0), None);
        assert!(some.differs(Some(1_000), 400.0).is_some());
    }
}
