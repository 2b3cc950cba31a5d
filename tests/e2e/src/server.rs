//! Programs that profiles are sent to, as `cargo xtask servers` builds them or as they are
//! installed.

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::built::target;

/// Longer than any of them takes to start or to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A program of `target/servers`; `None`, and said loudly, if it is not there.
///
/// # Errors
/// Never; for the caller's `?`.
pub fn server(name: &str) -> Result<Option<PathBuf>> {
    let path = target().join("servers").join(name);
    if path.is_file() {
        return Ok(Some(path));
    }
    println!("SKIPPED {name}: it is not built; `cargo xtask servers` builds it where it can");
    Ok(None)
}

/// The same, unless a variable names another one, or one is on `PATH` and none was built.
///
/// # Errors
/// If the variable names none.
pub fn installed(variable: &str, name: &str) -> Result<Option<PathBuf>> {
    if let Some(named) = env::var_os(variable).map(PathBuf::from) {
        ensure!(named.is_file(), "{variable} names no file: {}", named.display());
        return Ok(Some(named));
    }
    if let Some(built) = server(name)? {
        return Ok(Some(built));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    if let Some(found) = &found {
        println!("{name} is taken from {}", found.display());
    }
    Ok(found)
}

/// A program that runs; ends with the test.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(mut command: Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self(child))
    }

    /// Waits until it listens.
    ///
    /// # Errors
    /// If it ends before, or takes too long.
    pub fn wait_for(&mut self, port: u16) -> Result<()> {
        self.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())
            .with_context(|| format!("nobody listens at port {port}"))
    }

    /// Waits until it says at a path that it is ready.
    ///
    /// # Errors
    /// If it ends before, or takes too long.
    pub fn wait_until_ready(&mut self, port: u16, path: &str) -> Result<()> {
        self.wait_until(|| is_good(port, path).unwrap_or(false))
            .with_context(|| format!("it is not ready at port {port}"))
    }

    fn wait_until(&mut self, holds: impl Fn() -> bool) -> Result<()> {
        let begin = Instant::now();
        while !holds() {
            let ended = self.0.try_wait()?;
            ensure!(ended.is_none(), "it has ended: {ended:?}");
            ensure!(begin.elapsed() < LIMIT, "it takes longer than {LIMIT:?}");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Tells it to end, and waits until it has.
    ///
    /// # Errors
    /// If it does not.
    pub fn end(mut self) -> Result<()> {
        Command::new("kill").arg(self.0.id().to_string()).status()?;
        let begin = Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(begin.elapsed() < LIMIT, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Whether somebody at a port answers a question for a path with status 200.
fn is_good(port: u16, path: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut first = [0; 12];
    stream.read_exact(&mut first)?;
    Ok(first.ends_with(b" 200"))
}

/// A port of this machine at which nobody listens.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// An empty folder for a test.
///
/// # Errors
/// If it can't be made.
pub fn folder(name: &str) -> Result<PathBuf> {
    let folder = env::temp_dir().join(format!("corprof-servers-{name}-{}", std::process::id()));
    empty(&folder)?;
    Ok(folder)
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {folder:?}"))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {folder:?}"))
}
