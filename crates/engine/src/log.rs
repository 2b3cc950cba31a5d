//! What the profiler says in the host: few lines, each complete in itself.

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use config::LogLevel as Level;

/// Where lines go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Log {
    level: Level,
    file: Option<Arc<LogFile>>,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// Whether it was said that the file can't be written.
    complained: AtomicBool,
}

impl Log {
    /// A log to a file, or to standard error without one.
    #[must_use]
    pub fn new(level: Level, file: Option<PathBuf>) -> Self {
        let file = file.map(|path| LogFile { path, complained: AtomicBool::new(false) });
        Self { level, file: file.map(Arc::new) }
    }

    /// What keeps the profiler from working.
    pub fn error(&self, text: &str) {
        self.line(Level::Error, "error", text);
    }

    /// What makes it work worse.
    pub fn warn(&self, text: &str) {
        self.line(Level::Warn, "warning", text);
    }

    /// What it does.
    pub fn info(&self, text: &str) {
        self.line(Level::Info, "info", text);
    }

    /// Details.
    pub fn debug(&self, text: &str) {
        self.line(Level::Debug, "debug", text);
    }

    /// Details: where malloc has this thread's memory, so that who measures can tell it from the
    /// program's.
    pub fn arena(&self, thread: &str) {
        if Level::Debug > self.level {
            return;
        }
        // More than malloc hands on from one thread to another.
        let block = Vec::<u8>::with_capacity(4096);
        self.debug(&format!("{thread} allocates at {:p}", block.as_ptr()));
    }

    fn line(&self, level: Level, word: &str, text: &str) {
        if level > self.level {
            return;
        }
        // One write a line, so that lines of several processes in one file stay whole.
        let line = format!("corprof: {word}: {text}\n");
        match &self.file {
            None => say(&line),
            Some(file) => file.append(&line),
        }
    }
}

impl LogFile {
    /// Adds a line, or says it on standard error if it can't be added.
    fn append(&self, line: &str) {
        let opened = sys::files::append(&self.path);
        if let Err(error) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
            if !self.complained.swap(true, Ordering::Relaxed) {
                let path = self.path.display();
                say(&format!("corprof: error: the log can't be written to {path}: {error}\n"));
            }
            say(line);
        }
    }
}

/// Writes to standard error. If nobody listens there, that is no reason to disturb the host, nor to
/// wait: a parent that never reads leaves a full pipe. How many lines found no room is said before
/// the next one that does.
fn say(line: &str) {
    static UNSAID: AtomicU64 = AtomicU64::new(0);
    let unsaid = UNSAID.swap(0, Ordering::Relaxed);
    let said = sys::stderr::say(after_unsaid(unsaid, line).as_bytes());
    if !said {
        UNSAID.fetch_add(unsaid.saturating_add(1), Ordering::Relaxed);
    }
}

/// A line, after one that tells of those that could not be said.
fn after_unsaid(unsaid: u64, line: &str) -> Cow<'_, str> {
    match unsaid {
        0 => line.into(),
        1 => format!("corprof: warning: a line before this one found no room here\n{line}").into(),
        n => {
            format!("corprof: warning: {n} lines before this one found no room here\n{line}").into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Log, after_unsaid};

    #[test]
    fn what_could_not_be_said_is_told_with_the_next_line() {
        assert_eq!(after_unsaid(0, "line\n"), "line\n");
        for (unsaid, words) in [(1, "a line before this one"), (7, "7 lines before this one")] {
            let text = after_unsaid(unsaid, "line\n");
            assert!(text.contains(words) && text.ends_with("\nline\n"), "{text}");
        }
    }

    /// What measures memory reads it: a line of another form would count nothing, and say so.
    #[test]
    fn where_a_thread_allocates_is_a_detail() {
        let path = std::env::temp_dir().join(format!("corprof-log-{}", std::process::id()));
        for (level, is_told) in [(Level::Debug, true), (Level::Info, false)] {
            Log::new(level, Some(path.clone())).arena("ticker");
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let address = text.strip_prefix("corprof: debug: ticker allocates at 0x");
            let address = address.and_then(|hex| u64::from_str_radix(hex.trim_end(), 16).ok());
            assert_eq!(address.is_some_and(|address| address > 0), is_told, "{level:?}: {text}");
            let _gone = std::fs::remove_file(&path);
        }
    }
}
