//! For how long a process was stopped: by SIGSTOP, from its terminal, or by a debugger.

use std::time::{Duration, Instant};

use diagnostics::Process;

/// Adds up how long a process was stopped, as far as it was looked at.
#[derive(Debug)]
pub struct Stops {
    process: Process,
    since: Option<Instant>,
    before: Duration,
}

impl Stops {
    /// Of that process.
    pub fn of(process: Process) -> Self {
        Self { process, since: None, before: Duration::ZERO }
    }

    /// Looks at the process; to be called again and again.
    pub fn look(&mut self) {
        match (is_stopped(&self.process), self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.before += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }

    /// For how long it was, up to now.
    pub fn sum(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// How a process is stopped now, and what has it go on; `None` if it is not.
pub fn told(process: &Process) -> Option<String> {
    let pid = process.pid();
    match process.started().ok()?.1 {
        'T' => Some(format!("is stopped (state T): `kill -CONT {pid}` has it go on")),
        't' => Some("is held by a debugger (state t): have that let it go on".to_owned()),
        _ => None,
    }
}

/// Whether a process is stopped now.
pub fn is_stopped(process: &Process) -> bool {
    process.started().is_ok_and(|(_, state)| matches!(state, 'T' | 't'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn what_is_stopped_and_goes_on_is_seen() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let send = |signal| kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let mut stops = Stops::of(Process::new(child.id()));
        stops.look();
        assert_eq!(stops.sum(), Duration::ZERO);
        send(Signal::SIGSTOP);
        let begin = Instant::now();
        while stops.sum() < Duration::from_millis(100) {
            stops.look();
            assert!(begin.elapsed() < Duration::from_secs(60), "it is not seen");
        }
        let how = told(&stops.process).unwrap();
        assert!(how.contains(&format!("(state T): `kill -CONT {}`", child.id())), "{how}");
        send(Signal::SIGCONT);
        while is_stopped(&Process::new(child.id())) {
            std::thread::yield_now();
        }
        stops.look();
        let sum = stops.sum();
        assert_eq!(told(&stops.process), None);
        assert!(sum <= begin.elapsed() && sum == stops.sum(), "it goes on to count");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
