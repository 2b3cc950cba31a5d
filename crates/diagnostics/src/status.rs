//! `/proc/<pid>/status`.

/// The file's text, and what is looked for in it.
#[derive(Clone, Debug)]
pub struct Status(String);

impl Status {
    /// A status from the file's text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// What stands after a name and its colon.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let line = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(':').map(str::len);
        self.0.lines().find_map(|text| line(text).map(|length| text[text.len() - length..].trim()))
    }

    /// The process's number in its own namespace, the innermost one.
    #[must_use]
    pub fn own_pid(&self) -> Option<u32> {
        self.field("NSpid")?.split_whitespace().last()?.parse().ok()
    }

    /// The process's number, which a thread's status has, too.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.field("Tgid")?.parse().ok()
    }

    /// The effective user.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.field("Uid")?.split_whitespace().nth(1)?.parse().ok()
    }

    /// The effective group, then the others.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        let own = self.field("Gid").and_then(|text| text.split_whitespace().nth(1));
        let others = self.field("Groups").unwrap_or_default().split_whitespace();
        own.into_iter().chain(others).filter_map(|group| group.parse().ok()).collect()
    }

    /// Threads.
    #[must_use]
    pub fn threads(&self) -> Option<u64> {
        self.field("Threads")?.parse().ok()
    }

    /// Whether a signal has a handler.
    #[must_use]
    pub fn catches(&self, signal: u32) -> bool {
        self.has_signal("SigCgt", signal)
    }

    /// Whether a signal is ignored.
    #[must_use]
    pub fn ignores(&self, signal: u32) -> bool {
        self.has_signal("SigIgn", signal)
    }

    fn has_signal(&self, name: &str, signal: u32) -> bool {
        let mask = self.field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let bit = signal.checked_sub(1).and_then(|bit| 1_u64.checked_shl(bit));
        mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
    }

    /// Signals and timers that the user has pending in all processes, and the limit for them.
    #[must_use]
    pub fn pending_signals(&self) -> Option<(u64, u64)> {
        let (used, limit) = self.field("SigQ")?.split_once('/')?;
        Some((used.parse().ok()?, limit.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_process_in_a_container() {
        let status = Status::new(
            "Name:\tdotnet\nUmask:\t0022\nState:\tS (sleeping)\nPid:\t4711\nPPid:\t1\n\
             Uid:\t0\t1000\t0\t0\nGid:\t0\t100\t0\t0\nGroups:\t4 24 \nNSpid:\t4711\t12\t1\n\
             Threads:\t17\nSigQ:\t3/62793\nSigCgt:\t00000003bb818ef9\nSeccomp:\t2\n"
                .to_owned(),
        );
        assert_eq!(status.own_pid(), Some(1));
        assert_eq!(status.user(), Some(1000));
        assert_eq!(status.groups(), [100, 4, 24]);
        assert_eq!(status.threads(), Some(17));
        assert_eq!(status.pending_signals(), Some((3, 62_793)));
        assert_eq!(status.field("Seccomp"), Some("2"));
        assert_eq!(status.field("Pid"), Some("4711"));
        // SIGSEGV is caught, SIGPROF is not.
        assert!(status.catches(11) && !status.catches(27));
        assert!(!status.catches(0) && !status.catches(65));
        assert_eq!(Status::new(String::new()).own_pid(), None);
    }
}
