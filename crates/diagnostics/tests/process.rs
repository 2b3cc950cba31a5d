//! What `/proc` tells of a real process.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use diagnostics::{Hidden, Libc, Process, Socket, Unreachable, libc_of};

const SIGPROF: u32 = 27;

struct Shell(Child);

impl Shell {
    /// A shell that has said that it is ready, and waits for input.
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{script}; echo ready; read line"), "a b", "(c) d"]);
        command.env_clear().env("ONE", "1=2").env("EMPTY", "");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn process(&self) -> Process {
        Process::new(self.0.id())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_is_seen_as_it_was_started() {
    let shell = Shell::start(":");
    let process = shell.process();
    let variables = process.environment().unwrap();
    assert!(variables.contains(&("ONE".to_owned(), "1=2".to_owned())), "{variables:?}");
    assert!(variables.contains(&("EMPTY".to_owned(), String::new())), "{variables:?}");
    assert_eq!(process.command_line().unwrap()[3..], ["a b", "(c) d"]);
    let mapped = process.mapped_files().unwrap();
    assert!(mapped.contains(&process.program().unwrap()), "{mapped:?}");
    assert!(matches!(libc_of(&mapped), (Libc::Glibc(..), Some(_))), "{mapped:?}");
    assert_eq!(process.thread_names(9).unwrap(), ["sh"]);
    let own = Process::new(std::process::id());
    let (start, state) = process.started().unwrap();
    assert!(start >= own.started().unwrap().0 && "RSD".contains(state), "{start} {state}");
    assert_eq!(process.status().unwrap().user(), own.status().unwrap().user());
    assert_eq!(process.status().unwrap().threads(), Some(1));
    assert_eq!(process.shares_namespace(&own, "mnt"), Some(true));
    assert!(process.outside(Path::new("/proc/version")).exists());
    assert!(Process::all().unwrap().contains(&process));
    assert!(matches!(Socket::of_process(&process), Err(Unreachable::NotDotnet)));
}

#[test]
fn a_signal_with_a_handler_is_taken_and_one_that_is_ignored_is_not() {
    let takes = |script| Shell::start(script).process().status().unwrap().catches(SIGPROF);
    assert!(!takes(":"));
    assert!(takes("trap : PROF"));
    assert!(!takes("trap '' PROF"));
}

#[test]
fn a_process_that_has_ended_is_gone() {
    let shell = Shell::start(":");
    let process = shell.process();
    drop(shell);
    assert_eq!(process.environment(), Err(Hidden::Gone));
    assert_eq!(process.started(), Err(Hidden::Gone));
    assert!(matches!(Socket::of(process.pid()), Err(Unreachable::NoProcess)));
}

#[test]
fn the_temporary_folder_is_where_the_process_sees_it() {
    let shell = Shell::start("cd /usr/bin");
    let folder = |named: &str| {
        let variable = ("TMPDIR".to_owned(), named.to_owned());
        shell.process().temporary_folder(&[variable])
    };
    assert_eq!(folder("lib/x"), Path::new("/usr/bin/lib/x"), "below its folder of the moment");
    assert_eq!(folder("/var/tmp"), Path::new("/var/tmp"));
    assert_eq!(folder(""), Path::new("/tmp"));
    assert_eq!(shell.process().temporary_folder(&[]), Path::new("/tmp"));
}
