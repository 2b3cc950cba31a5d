//! What the profiler says in the host: few lines, each complete in itself.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use config::LogLevel as Level;

/// Where lines go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Log {
    level: Level,
    file: Option<Arc<PathBuf>>,
}

impl Log {
    /// A log to a file, or to standard error without one.
    #[must_use]
    pub fn new(level: Level, file: Option<PathBuf>) -> Self {
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
        // One write a line, so that lines of several processes in one file stay whole. A log that
        // can't be written is no reason to disturb the host.
        let line = format!("corprof: {word}: {text}\n");
        let _unwritable = match &self.file {
            None => std::io::stderr().write_all(line.as_bytes()),
            Some(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .open(path.as_path())
                .and_then(|mut file| file.write_all(line.as_bytes())),
        };
    }
}
