//! A program started with the signals blocked that it is to have blocked, while we have others: the
//! standard library's start has it inherit ours.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The first of the real-time signals, which stands for all of them: which one it was, isn't told.
pub const REAL_TIME: i32 = 34;

/// A child process of ours.
#[derive(Debug)]
pub struct Spawned(Pid);

impl Spawned {
    /// Starts a command's program, with its arguments and environment and all else as we have it,
    /// but for the signals that are blocked.
    ///
    /// # Errors
    /// Why it can't be executed; `InvalidInput` if a text has a NUL.
    pub fn start(command: &Command, blocked: &SigSet) -> io::Result<Self> {
        let program = text(command.get_program().as_bytes().to_vec())?;
        let arguments = command.get_args().map(|argument| text(argument.as_bytes().to_vec()));
        let arguments: Vec<CString> =
            std::iter::once(Ok(program.clone())).chain(arguments).collect::<io::Result<_>>()?;
        let environment: Vec<CString> =
            environment(command).into_iter().map(text).collect::<io::Result<_>>()?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_sigmask(blocked)?;
        // Rust's programs ignore it, others expect it.
        attributes.set_sigdefault(&[Signal::SIGPIPE].into_iter().collect())?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        let nothing = PosixSpawnFileActions::init()?;
        Ok(Self(posix_spawnp(&program, &nothing, &attributes, &arguments, &environment)?))
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.0
    }

    /// How it ended; `None` if it has not.
    ///
    /// # Errors
    /// If it can't be asked about.
    pub fn ended(&self) -> io::Result<Option<ExitStatus>> {
        match waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => Ok(Some(ExitStatus::from_raw((code & 0xff) << 8))),
            Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitStatus::from_raw(signal as i32))),
            // It ended by a signal that has no name.
            Err(Errno::EINVAL) => Ok(Some(ExitStatus::from_raw(REAL_TIME))),
            Ok(_) | Err(Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Ours, with what the command changes: `NAME=value`.
fn environment(command: &Command) -> Vec<Vec<u8>> {
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        all.retain(|(other, _)| other != name);
        all.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }
    let line = |(name, value): (OsString, OsString)| {
        let mut line = name.into_vec();
        line.push(b'=');
        line.extend(value.into_vec());
        line
    };
    all.into_iter().map(line).collect()
}

fn text(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// How a shell that does this ends, with SIGUSR1 and no other signal blocked.
    fn end_of(script: &str) -> ExitStatus {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("CORPROF_TEST_ADDED", "a b").env_remove("HOME");
        let spawned = Spawned::start(&command, &[Signal::SIGUSR1].into_iter().collect()).unwrap();
        loop {
            if let Some(status) = spawned.ended().unwrap() {
                return status;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn its_end_is_what_it_was() {
        assert_eq!(end_of("exit 42").code(), Some(42));
        assert_eq!(end_of("kill -KILL $$").signal(), Some(9));
        assert_eq!(end_of("kill -34 $$").signal(), Some(REAL_TIME));
        assert_eq!(end_of("kill -40 $$").signal(), Some(REAL_TIME));
    }

    #[test]
    fn it_has_its_own_mask_and_environment_and_pipes_end_it() {
        let line = |wanted: &str| format!("grep -q '^{wanted}$' /proc/self/status");
        // A shell may unblock signals for what it starts; the line is of grep, which it becomes.
        let script = format!("exec {}", line("SigBlk:\t0000000000000200"));
        assert_eq!(end_of(&script).code(), Some(0));
        let of_pipes = "read -r ignored < /dev/null; while read -r line; do case $line in \
                        SigIgn:*) echo $((0x${line#SigIgn:?} >> 12 & 1));; esac; done \
                        < /proc/self/status | grep -qx 0";
        assert_eq!(end_of(of_pipes).code(), Some(0));
        assert_eq!(end_of("test \"$CORPROF_TEST_ADDED\" = 'a b' -a -z \"$HOME\"").code(), Some(0));
        assert_eq!(end_of("test -n \"$PATH\"").code(), Some(0));
    }

    #[test]
    fn why_it_cannot_be_started_is_told() {
        let none = SigSet::empty();
        for (program, error) in
            [("no-such-program-anywhere", Errno::ENOENT), ("/", Errno::EACCES), ("", Errno::ENOENT)]
        {
            let refused = Spawned::start(&Command::new(program), &none).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(error as i32), "{program:?}");
        }
    }
}
