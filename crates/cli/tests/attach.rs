//! `corprof attach` of a process whose runtime never answers: signals end it whenever they come.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Dir, elf, machine};

/// Longer than signals take for one wish.
const APART: Duration = Duration::from_millis(400);
/// Far less than a runtime is waited for.
const LIMIT: Duration = Duration::from_secs(15);

/// Has the test's own program be the process that is attached to.
const DEAF: &str = "CORPROF_TEST_DEAF";

/// A process that looks like one of .NET, and is deaf.
struct Deaf {
    child: Child,
}

impl Deaf {
    fn new(dir: &Dir) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "no_signal_is_lost_whenever_it_comes", "--nocapture"]);
        command.env(DEAF, "1").env("TMPDIR", &dir.0).stdout(Stdio::null());
        let deaf = Self { child: command.spawn().unwrap() };
        let begun = Instant::now();
        let is_socket = |name: &str| name.starts_with("dotnet-diagnostic-");
        let listens = || {
            let mut entries = fs::read_dir(&dir.0).unwrap().flatten();
            entries.any(|entry| entry.file_name().to_str().is_some_and(is_socket))
        };
        while !listens() {
            assert!(begun.elapsed() < LIMIT, "it never listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        deaf
    }

    /// Listens as a runtime does that answers nobody, until it is killed.
    fn be() {
        let pid = std::process::id();
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
        let name = format!("dotnet-diagnostic-{pid}-{start}-socket");
        let _listener = UnixListener::bind(std::env::temp_dir().join(name)).unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// An attach as a shell has it that ignores SIGINT for what runs beside it.
fn attach(dir: &Dir, pid: u32) -> Child {
    attach_saying(dir, pid, Stdio::null())
}

fn attach_saying(dir: &Dir, pid: u32, said: Stdio) -> Child {
    let agent = dir.write("libcorprof.so", &elf(machine(), 3));
    let script = "trap '' INT; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_corprof"), "attach", "--agent"]);
    command.arg(agent).arg("--out").arg(dir.path("out")).arg(pid.to_string());
    command.stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

#[test]
fn no_signal_is_lost_whenever_it_comes() {
    if std::env::var_os(DEAF).is_some() {
        return Deaf::be();
    }
    for (signal, first) in [
        (Signal::SIGTERM, 0),
        (Signal::SIGTERM, 3),
        (Signal::SIGHUP, 5),
        (Signal::SIGINT, 5),
        (Signal::SIGINT, 20),
        (Signal::SIGINT, 100),
        (Signal::SIGTERM, 700),
    ] {
        let dir = Dir::new();
        let deaf = Deaf::new(&dir);
        let mut attach = attach(&dir, deaf.child.id());
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(first));
        assert!(attach.try_wait().unwrap().is_none(), "it ends without a signal");
        let mut sent = 0;
        while attach.try_wait().unwrap().is_none() {
            if begun.elapsed() > LIMIT {
                attach.kill().unwrap();
                panic!("{signal} from {first} ms on, {sent} times, did not end it");
            }
            kill(Pid::from_raw(attach.id().cast_signed()), signal).unwrap();
            sent += 1;
            std::thread::sleep(APART);
        }
        // One may come while it is still the shell that ignores it.
        assert!(sent <= 3, "{signal} from {first} ms on was sent {sent} times");
    }
}

/// The next line that has these words; an error has all lines up to the end.
fn line_with(lines: &mut impl Iterator<Item = String>, words: &str) -> Result<String, String> {
    let mut others = String::new();
    for line in lines {
        if line.contains(words) {
            return Ok(line);
        }
        others += &(line + "\n");
    }
    Err(others)
}

/// It is told of at once, and not when the runtime has not answered for too long; and how things
/// were left is told, too.
#[test]
fn a_process_that_is_stopped_while_it_is_asked_is_told_of() {
    let dir = Dir::new();
    let deaf = Deaf::new(&dir);
    let pid = deaf.child.id();
    for (signal, state) in [
        (Some(Signal::SIGSTOP), format!("is stopped (state T): `kill -CONT {pid}` has it go on.")),
        (None, "has not answered.".to_owned()),
    ] {
        let mut attach = attach_saying(&dir, pid, Stdio::piped());
        let said = BufReader::new(attach.stderr.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        line_with(&mut lines, "attaching to process").unwrap();
        if let Some(signal) = signal {
            kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
            let line = line_with(&mut lines, "(state T)").unwrap();
            assert!(line.contains("; waiting "), "{line}");
        }
        kill(Pid::from_raw(attach.id().cast_signed()), Signal::SIGTERM).unwrap();
        let line = line_with(&mut lines, "ended before the agent was loaded: process").unwrap();
        for words in [&state, "Its runtime has the request", &format!("`corprof ctl {pid} detach`")]
        {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert_eq!(attach.wait().unwrap().code(), Some(1));
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGCONT).unwrap();
        while fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }
}

/// Root is no other user: where the system refuses even that, it says so, as `attach` does.
#[test]
fn why_an_agent_cannot_be_spoken_to_is_told() {
    let dir = Dir::new();
    let ran = dir.run(&["ctl", "1", "status"]);
    ran.check(1, &["process 1 "]);
    let is_seen = fs::metadata("/proc/1/root/").is_ok();
    let words = if is_seen { "has no agent that listens" } else { "can't be spoken to: " };
    assert!(ran.err.contains(words), "{}", ran.err);
    if nix::unistd::Uid::effective().is_root() {
        assert!(!ran.err.contains("another user"), "{}", ran.err);
    }
}
