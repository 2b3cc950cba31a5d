//! `cargo xtask bench handler`: what a walk costs in the signal handler, by how deep the stack is.
//! In instructions, which callgrind counts and no other program's work changes; the nanoseconds
//! beside them are those of this machine at this moment.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::callgrind;
use crate::product::cargo;

const FRAMES: [u32; 5] = [10, 40, 100, 500, 1000];
const KINDS: [(&str, &str); 2] =
    [("managed", "frame pointers, among 3,000 methods"), ("native", "among 400,000 rows")];
/// Whether the stack was walked before.
const CACHES: [(&str, &str); 2] = [("known", "walked before"), ("new", "not")];
/// Walks under callgrind, where each is like the other.
const COUNTED: u32 = 20;
/// Walks whose time is taken.
const TIMED: u32 = 2_000;

/// Measures and prints a table.
pub fn run(target: &Path) -> Result<()> {
    cargo(&["build", "--release", "--package", "signal", "--example", "walk_cost"])?;
    let program = target.join("release/examples/walk_cost");
    let counts = target.join("bench/handler.callgrind");
    fs::create_dir_all(target.join("bench"))?;
    println!("\nA walk in the handler ({COUNTED} counted, {TIMED} timed):\n");
    println!("| frames | stack | walked before | instructions | a frame | ns |");
    println!("|---|---|---|---|---|---|");
    let cases = KINDS.into_iter().flat_map(|kind| CACHES.map(|cache| (kind, cache)));
    for ((kind, what), (cache, before)) in cases {
        for frames in FRAMES {
            let walk = Walk { program: &program, kind, frames, cache };
            let ns = walk.nanos()?;
            let row = format!("| {frames} | {kind}: {what} | {before} |");
            let Some(instructions) = walk.instructions(&counts)? else {
                println!("{row} not counted | | {ns} |");
                continue;
            };
            println!("{row} {instructions} | {} | {ns} |", instructions / u64::from(frames));
        }
    }
    Ok(())
}

/// A stack to walk.
struct Walk<'a> {
    program: &'a Path,
    kind: &'a str,
    frames: u32,
    cache: &'a str,
}

impl Walk<'_> {
    /// The arguments of `walk_cost`.
    fn arguments(&self, times: u32) -> [String; 4] {
        [self.kind.into(), self.frames.to_string(), times.to_string(), self.cache.into()]
    }

    fn nanos(&self) -> Result<u64> {
        let mut command = Command::new(self.program);
        let output = command.args(self.arguments(TIMED)).output().context("walk_cost")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "walk_cost failed: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().parse().context("walk_cost")
    }

    /// Instructions of one walk; `None` if they can't be counted.
    fn instructions(&self, out: &Path) -> Result<Option<u64>> {
        let words = self.arguments(COUNTED);
        let all = callgrind::instructions(self.program, words, "*measured*", out)?;
        Ok(all.map(|all| all / u64::from(COUNTED)))
    }
}
