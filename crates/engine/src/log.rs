//! What the profiler says in the host: few lines, each complete in itself.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        let mut options = OpenOptions::new();
        // A pipe without a reader is not waited for.
        options.custom_flags(sys::stderr::NONBLOCK);
        let opened = options.append(true).create(true).open(&self.path);
        if let Err(error) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
            if !self.complained.swap(true, Ordering::Relaxed) {
                let path = self.path.display();
                say(&format!("corprof: error: the log can't be written to {path}: {error}\n"));
            }
            say(line);
        }
    }
}

/// Writes to standard error. If nobody listens there, that is no reason to disturb the host.
fn say(line: &str) {
    // Nor is it a reason to wait: a parent that never reads leaves a full pipe.
    sys::stderr::say(line.as_bytes());
}
