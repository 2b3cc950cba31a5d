//! Programs that profiles are sent to, as `cargo xtask servers` builds them or as they are
//! installed.

use std::env;
use std::fs;
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

/// A program that somebody has installed: at the path that a variable names, or on `PATH`.
#[must_use]
pub fn installed(variable: &str, name: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(name));
    named.into_iter().chain(on_path).find(|path| path.is_file())
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
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = self.0.try_wait()?;
            ensure!(ended.is_none(), "it has ended: {ended:?}");
            ensure!(begin.elapsed() < LIMIT, "nobody listens at port {port}");
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
