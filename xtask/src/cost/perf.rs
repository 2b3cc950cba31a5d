//! `perf record -g` of a process.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use super::process;

/// Longer than it takes to look at all threads of a process.
const START: Duration = Duration::from_secs(60);
/// How long `perf` has to end, and to write what it has.
const END: Duration = Duration::from_secs(20);

/// `perf record` at work on a process.
pub struct Perf {
    child: Child,
    control: File,
    answers: File,
}

impl Drop for Perf {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        // It may have ended; there is nobody to tell.
        let _told = kill(pid, Signal::SIGINT);
        let began = Instant::now();
        while began.elapsed() < END && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Perf {
    /// Whether this machine has `perf`.
    pub fn is_there() -> bool {
        let mut command = Command::new("perf");
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Starts it at so many samples a second of CPU time; when this returns, it takes them. Its
    /// files go to a folder.
    pub fn start(pid: u32, rate: u32, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let pipes = ["control", "answers"].map(|name| folder.join(name));
        for pipe in &pipes {
            // What is there is of the last run, if anything.
            let _gone = fs::remove_file(pipe);
            mkfifo(pipe, Mode::S_IRUSR | Mode::S_IWUSR)?;
        }
        let [control, answers] = pipes;
        let mut command = Command::new("perf");
        // cpu-clock is there on virtual machines, too, which have no counters.
        command.args(["record", "-q", "-g", "-B", "-e", "cpu-clock", "-D", "-1"]);
        command.args(["-F", &rate.to_string(), "-p", &pid.to_string(), "-o"]);
        command.arg(folder.join("perf.data"));
        command.arg(format!("--control=fifo:{},{}", control.display(), answers.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().context("perf")?;
        // Opened for both, so that nobody waits for the other side to open it.
        let mut open = OpenOptions::new();
        open.read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let (control, answers) = (open.open(control)?, open.open(answers)?);
        let mut perf = Self { child, control, answers };
        perf.say("enable")?;
        Ok(perf)
    }

    /// CPU nanoseconds that it has used so far, for itself.
    pub fn cpu_ns(&self) -> Result<u64> {
        process::cpu_ns(self.child.id())
    }

    fn say(&mut self, word: &str) -> Result<()> {
        self.control.write_all(format!("{word}\n").as_bytes())?;
        let began = Instant::now();
        let mut answer = [0; 64];
        while began.elapsed() < START {
            match self.answers.read(&mut answer) {
                // `ack`, and a zero at its end.
                Ok(count) if answer[..count].contains(&b'k') => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("perf's answers"),
            }
            if let Some(status) = self.child.try_wait()? {
                let mut text = String::new();
                self.child.stderr.take().context("no output")?.read_to_string(&mut text)?;
                bail!("perf has ended ({status}): {}", text.trim());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("perf does not answer")
    }
}
