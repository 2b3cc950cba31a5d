//! Skipped tests: said loudly at once, and listed for the summary at the end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use crate::layout::Layout;
use crate::unavailable::Unavailable;

/// Says that the test is skipped, past the test runner's capture of output, and notes it.
pub(crate) fn note(layout: &Layout, test: &str, unavailable: &Unavailable) {
    let line = format!("SKIPPED {test}: {unavailable}\n");
    // Not eprintln!, which a test runner keeps to itself when the test passes.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Err(error) = record(layout, &line) {
        let _ = writeln!(io::stderr(), "rig: cannot note the skipped test: {error}");
    }
}

/// One write a line, which does not mix with another process's.
fn record(layout: &Layout, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(layout.skipped())?;
    file.write_all(line.as_bytes())
}

/// The tests noted since the list was last cleared.
pub(crate) fn list(layout: &Layout) -> Vec<String> {
    let text = fs::read_to_string(layout.skipped()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Forgets the list, before a run of the tests.
pub(crate) fn clear(layout: &Layout) -> io::Result<()> {
    match fs::remove_file(layout.skipped()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_grows_until_it_is_cleared() {
        let dir = std::env::temp_dir().join(format!("rig-skip-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let layout = Layout::at(&dir);
        clear(&layout).unwrap();
        record(&layout, "SKIPPED one\n").unwrap();
        record(&layout, "SKIPPED two\n").unwrap();
        assert_eq!(list(&layout), ["SKIPPED one", "SKIPPED two"]);
        clear(&layout).unwrap();
        assert!(list(&layout).is_empty());
        fs::remove_dir_all(&dir).unwrap();
    }
}
