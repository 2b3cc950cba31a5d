//! An ASP.NET Core service in a sandbox: started, asked, ended by SIGTERM, and its profiles.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::{View, built, profiles_in};
use profile::read;
use rig::{Net9, Rig};

use crate::sandbox::Sandbox;

/// Longer than anything here takes, however busy the machine.
const LIMIT: Duration = Duration::from_secs(120);
/// How many requests each gets.
const REQUESTS: u64 = 40;
/// The user `app` of Microsoft's images.
pub const USER: u32 = 1654;

/// Variables, in their order.
pub type Variables = Vec<(String, String)>;

/// The program, which needs to be mounted, and its command; `None`, and said loudly, if it can't be
/// had.
///
/// # Errors
/// If it does not compile.
pub fn program(test: &str, sandbox: &mut Sandbox) -> Result<Option<(Vec<String>, Variables)>> {
    let rig = Rig::ensure()?;
    let Some(command) = rig.command_or_skip(test, "web", Net9)? else { return Ok(None) };
    sandbox.mount(rig.root(), &rig.root().to_string_lossy(), true);
    let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(text);
    let variables = command.get_envs();
    let set = variables.filter_map(|(name, value)| Some((text(name), text(value?))));
    let set = set.filter(|(name, _)| name.starts_with("DOTNET_"));
    Ok(Some((words.collect(), set.collect())))
}

/// A service that has ended.
#[derive(Debug)]
pub struct Served {
    /// What it said on standard error.
    pub errors: String,
    /// The rights that it had: lines of its `/proc/PID/status`.
    pub status: String,
    /// What `corprof ctl PID status` said from outside while it ran.
    pub control: String,
    /// Whether `corprof ps`, outside, found it.
    pub is_listed: bool,
}

/// Starts it, asks it, ends it.
///
/// # Errors
/// If it does not start, or a request or its end fails.
pub fn serve(command: Command, folder: &Path) -> Result<Served> {
    let (out, errors) = (folder.join("stdout"), folder.join("stderr"));
    let mut service = Running::start(command, &out, &errors)?;
    let served = service.ask(&out).and_then(|served| {
        service.terminate()?;
        Ok(served)
    });
    drop(service);
    let errors = fs::read_to_string(errors).unwrap_or_default();
    let served = served.with_context(|| format!("it said: {errors}"))?;
    Ok(Served { errors, ..served })
}

struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // `unshare --kill-child` takes the others along.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(mut command: Command, out: &Path, errors: &Path) -> Result<Self> {
        command.stdout(File::create(out)?).stderr(File::create(errors)?);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        Ok(Self { child })
    }

    /// Sends the requests, and looks at the process while it works.
    fn ask(&mut self, out: &Path) -> Result<Served> {
        let listening = |text: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix("LISTENING "))?;
            text.ends_with('\n').then(|| line.trim().parse::<u16>().ok())?
        };
        let port = self.until(|| listening(&fs::read_to_string(out).ok()?))?;
        for _ in 0..REQUESTS {
            let answer = get(port, "/cpu/3000").context("a request")?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let pid = self.inner()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let control = said(&["ctl", &pid.to_string(), "status"])?;
        let list: serde_json::Value = serde_json::from_str(&said(&["ps", "--json"])?)?;
        let mut rows = list["processes"].as_array().into_iter().flatten();
        let is_listed = rows.any(|row| row["pid"] == pid && row["profiled"] == true);
        Ok(Served { errors: String::new(), status, control, is_listed })
    }

    /// The first process inside.
    fn inner(&self) -> Result<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let text = fs::read_to_string(children).context("no children in /proc")?;
        Ok(text.trim().parse()?)
    }

    fn terminate(&mut self) -> Result<()> {
        let status = Command::new("kill").args(["-TERM", &self.inner()?.to_string()]).status()?;
        ensure!(status.success(), "kill: {status}");
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "it ended with {status}");
                return Ok(());
            }
            ensure!(begin.elapsed() < LIMIT, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn until<T>(&mut self, mut found: impl FnMut() -> Option<T>) -> Result<T> {
        let begin = Instant::now();
        while begin.elapsed() < LIMIT {
            if let Some(found) = found() {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it has ended: {status}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("it does not listen")
    }
}

/// All that the command prints.
fn said(arguments: &[&str]) -> Result<String> {
    let output = Command::new(&built()?.corprof).args(arguments).output()?;
    let all = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&all).into_owned())
}

fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Checks what the recipes promise: profiles of that service in that folder, which their owner
/// alone can read, and which know all requests; a file system that else is read-only, and no right.
///
/// # Errors
/// What doesn't hold.
pub fn check(served: &Served, folder: &Path, service: &str, user: u32) -> Result<()> {
    let said = &served.errors;
    // What is wrong with a recipe the agent says, or the hook.
    ensure!(!said.contains("corprof"), "the agent said: {said}");
    // Its sockets are in its own /tmp.
    ensure!(served.is_listed && served.control.contains("running"), "{served:?}");
    let words = |name: &str| -> Vec<String> {
        let line = served.status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let user_text = user.to_string();
    ensure!(words("Uid:").iter().all(|uid| *uid == user_text), "{}", served.status);
    ensure!(words("NSpid:").last().is_some_and(|pid| pid == "1"), "{}", served.status);
    ensure!(words("NoNewPrivs:") == ["1"], "{}", served.status);
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        ensure!(words(set).concat().bytes().all(|digit| digit == b'0'), "{}", served.status);
    }
    let files = files(folder)?;
    ensure!(!files.is_empty(), "no profile in {folder:?}; it said: {said}");
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ensure!(name.starts_with(&format!("{service}_1_")), "{name}");
        let metadata = file.metadata()?;
        let (mode, owner) = (metadata.mode() & 0o777, (metadata.uid(), metadata.gid()));
        ensure!(mode == 0o600 && owner == (user, user), "{name}: {mode:o} {owner:?}");
    }
    let profiles = profiles_in(folder)?;
    let profile = read::merge(profiles.iter().map(|(_, profile)| profile));
    let endpoint = "GET /cpu/{thousands:int}";
    let counted = profile.endpoints.iter().find(|e| profile.text(e.name) == endpoint);
    let counted = counted.map_or(0, |endpoint| endpoint.requests);
    ensure!(counted == REQUESTS, "{counted} requests of {REQUESTS}; it said: {said}");
    let view = View::of_profile(&profile);
    let work = view.of(|row| row.endpoint == endpoint && row.has("Work.Multiply("));
    ensure!(work.cpu_ns > 0, "none of its work; {}", view.top(10));
    Ok(())
}

/// The profiles in a folder.
///
/// # Errors
/// If there is another file.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{folder:?}"))?;
    let files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    for file in &files {
        ensure!(file.to_string_lossy().ends_with(".pb.gz"), "{file:?}");
    }
    Ok(files)
}
