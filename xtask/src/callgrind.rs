//! Instructions, as valgrind's callgrind counts them: no other program's work changes them.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Instructions of all calls of functions with such a name, in a run of a program; `None`, loudly,
/// if there is no valgrind. Callgrind's file stays at `out`.
pub fn instructions<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    functions: &str,
    out: &Path,
) -> Result<Option<u64>> {
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--toggle-collect={functions}"));
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program).args(arguments);
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no valgrind to count instructions (apt-get install)");
            Ok(None)
        }
        Err(error) => Err(error).context("valgrind"),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "valgrind: {errors}");
            let text = fs::read_to_string(out).with_context(|| format!("{}", out.display()))?;
            let all = total(&text).with_context(|| format!("no total in {}", out.display()))?;
            ensure!(all > 0, "callgrind counted nothing: is `{functions}` gone?");
            Ok(Some(all))
        }
    }
}

/// The sum of a callgrind file.
fn total(text: &str) -> Option<u64> {
    let line = |name| text.lines().find_map(|line| line.strip_prefix(name));
    line("totals: ").or(line("summary: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_sum_of_a_file() {
        assert_eq!(total("version: 1\nevents: Ir\nfn=x\n1 2\ntotals: 123\n"), Some(123));
        assert_eq!(total("summary: 7\n"), Some(7));
        assert_eq!(total("nothing"), None);
    }
}
