//! Where a result goes: a file, which appears whole or not at all, or standard output.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::failure::{Failure, USAGE};
use crate::{files, unfinished};

/// The name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Other names of it, which are links on Linux: nothing may be put in their place.
const ITS_LINKS: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Whether it is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
        || cfg!(unix) && ITS_LINKS.iter().any(|link| path == Path::new(link))
}

/// Refuses an output that is one of the profiles that are read, by whatever path or link: it would
/// be gone.
///
/// # Errors
/// If it is one.
pub fn refuse_input(out: &Path, named: &[PathBuf]) -> Result<(), Failure> {
    if is_standard_output(out) || !fs::metadata(out).is_ok_and(|about| about.is_file()) {
        return Ok(());
    }
    // What can't be listed is told by whoever reads it.
    let mut inputs = named.iter().flat_map(|path| files::expand(path).unwrap_or_default());
    let Some(input) = inputs.find(|input| files::is_same(input, out)) else { return Ok(()) };
    let (shown, input) = (out.display(), input.display());
    let message = format!(
        "-o {shown}: this is {input}, which is read, and would be overwritten; name another file"
    );
    Err(Failure::new(USAGE, message))
}

/// Writes the bytes there, over what a file had.
///
/// # Errors
/// If it can't be written; then a file is as it was, but for one that a link leads to.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if is_standard_output(path) {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        return Ok(out.flush()?);
    }
    let shown = path.display();
    // What is no file, as /dev/null or a pipe, can't be put in its place. A link that was named is
    // followed, as the shell's > does; and where it leads may be another process's descriptor.
    let is_link = fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    let written = if is_link || fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        fs::write(path, bytes)
    } else {
        unfinished::replace(path, bytes)
    };
    written.with_context(|| format!("{shown}: can't be written"))
}
