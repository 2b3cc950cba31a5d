//! What a server counts, as Prometheus reads it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use server::store::Numbers;

/// Upper bounds of the histogram of how long questions took, in milliseconds.
const BOUNDS_MS: [u64; 8] = [3, 10, 30, 100, 300, 1_000, 3_000, 10_000];

/// Counts of a server since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Profiles that were taken.
    pub taken: AtomicU64,
    /// Those that were there already, as after an answer that was lost.
    pub repeated: AtomicU64,
    /// Pushes that were refused: they made no sense, or came too often.
    pub refused: AtomicU64,
    pub limited: AtomicU64,
    /// Pushes that could not be written.
    pub failed: AtomicU64,
    /// Bytes of what was taken.
    pub bytes: AtomicU64,
    questions: [AtomicU64; BOUNDS_MS.len()],
    question_count: AtomicU64,
    question_ns: AtomicU64,
}

impl Counters {
    /// A question was answered in that time.
    pub fn answered(&self, time: Duration) {
        for (bound, count) in BOUNDS_MS.iter().zip(&self.questions) {
            if time.as_millis() <= u128::from(*bound) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.question_count.fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.question_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// All of them, with the store's numbers and the rows that are in memory.
    pub fn text(&self, store: Numbers, rows: usize) -> String {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut text = String::new();
        let mut put = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        for (name, help, count) in [
            ("corprof_profiles_taken_total", "Profiles that are kept.", &self.taken),
            ("corprof_profiles_repeated_total", "Profiles that were there.", &self.repeated),
            ("corprof_pushes_refused_total", "Pushes that made no sense.", &self.refused),
            ("corprof_pushes_limited_total", "Pushes that came too often.", &self.limited),
            ("corprof_pushes_failed_total", "Pushes that could not be written.", &self.failed),
            ("corprof_pushed_bytes_total", "Bytes of what is kept.", &self.bytes),
        ] {
            put(name, "counter", help, of(count));
        }
        put("corprof_store_profiles", "gauge", "Profiles on disk.", store.profiles);
        put("corprof_store_bytes", "gauge", "Bytes on disk.", store.bytes);
        put("corprof_store_deleted_total", "counter", "Profiles that were old.", store.deleted);
        put("corprof_store_damaged", "gauge", "Records that are damaged.", store.damaged);
        put("corprof_rows", "gauge", "Samples in memory.", rows as u64);
        let name = "corprof_question_seconds";
        let _ = writeln!(text, "# HELP {name} How long questions took.\n# TYPE {name} histogram");
        for (bound, count) in BOUNDS_MS.iter().zip(&self.questions) {
            let bound = *bound as f64 / 1e3;
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {}", of(count));
        }
        let count = of(&self.question_count);
        let seconds = of(&self.question_ns) as f64 / 1e9;
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {seconds}\n{name}_count {count}");
        text
    }
}
