//! What the agent had to say while it was attached, said again by us.

use crate::{note, warn};

/// Says lines of the agent's log, each at its own level.
pub fn relay(log: &str) {
    for line in log.lines() {
        match parts(line) {
            (true, text) => note(text),
            (false, text) => warn(text),
        }
    }
}

/// Whether a line is no more than news, and what it says without its head.
fn parts(line: &str) -> (bool, &str) {
    let text = line.strip_prefix("corprof: ").unwrap_or(line);
    match text.split_once(": ") {
        Some(("info" | "debug", text)) => (true, text),
        Some(("warning" | "error", text)) => (false, text),
        _ => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_level() {
        for (line, told) in [
            ("corprof: info: agent 0.1.0: ready", (true, "agent 0.1.0: ready")),
            ("corprof: debug: ready", (true, "ready")),
            ("corprof: warning: no pauses: why", (false, "no pauses: why")),
            ("corprof: error: not profiling", (false, "not profiling")),
            ("half a line: of something", (false, "half a line: of something")),
        ] {
            assert_eq!(parts(line), told);
        }
    }
}
