//! How sending goes, in numbers.

use config::Target;

/// Profiles of one target, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent and taken.
    pub sent: u64,
    /// Attempts that failed and are made again.
    pub failed: u64,
    /// Refused for good.
    pub refused: u64,
    /// Given up since too many waited, in memory or on disk.
    pub dropped: u64,
    /// Files that were damaged.
    pub damaged: u64,
}

impl Counts {
    /// Profiles that were given up, for whatever reason.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.refused.saturating_add(self.dropped).saturating_add(self.damaged)
    }
}

/// How it goes with one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The target.
    pub target: Target,
    /// Its address, without secrets.
    pub address: String,
    /// What came of the profiles.
    pub counts: Counts,
    /// Profiles that wait in memory, and their bytes.
    pub queued: (u64, u64),
    /// Profiles that wait on disk, and their bytes; of this process.
    pub spooled: (u64, u64),
    /// Why the last attempt failed, if it did.
    pub error: Option<String>,
}

impl Status {
    /// In one line, for a person.
    #[must_use]
    pub fn line(&self) -> String {
        let Counts { sent, failed, refused, dropped, damaged } = self.counts;
        let mut line = format!("{}: {sent} sent", self.address);
        for (n, what) in [
            (failed, "attempts failed"),
            (refused, "refused"),
            (dropped, "dropped"),
            (damaged, "damaged"),
            (self.queued.0, "waiting in memory"),
            (self.spooled.0, "waiting on disk"),
        ] {
            if n > 0 {
                line.push_str(&format!(", {n} {what}"));
            }
        }
        match &self.error {
            Some(error) => format!("{line}; last error: {error}"),
            None => line,
        }
    }
}
