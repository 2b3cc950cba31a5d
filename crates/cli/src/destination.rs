//! Where a result goes: a file, which appears whole or not at all, or standard output.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::unfinished;

/// The name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Whether it is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}

/// Writes the bytes there, over what a file had.
///
/// # Errors
/// If it can't be written; then the file is as it was.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if is_standard_output(path) {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        return Ok(out.flush()?);
    }
    let shown = path.display();
    // What is no file, as /dev/null or a pipe, can't be put in its place.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return fs::write(path, bytes).with_context(|| format!("{shown}: can't be written"));
    }
    unfinished::write(path, bytes).with_context(|| format!("{shown}: can't be written"))
}
