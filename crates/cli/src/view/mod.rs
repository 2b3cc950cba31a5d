//! `corprof view`: a page on this machine that looks at profiles, and adds them up as it is asked.

mod answer;
pub mod api;
mod changes;
pub mod columns;
mod lanes;
mod places;
mod requests;
mod selection;
mod size;
mod sums;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use anyhow::{Context as _, anyhow};
use profile::FileName;
use profile::read::Decoded;
use serde_json::json;
use server::door::Verdict;
use server::guard::Guard;
use server::http::{Handler, Limits, Method, Request, Response, Server};

use crate::args::ViewArgs;
use crate::failure::{FAILED, Failure};
use crate::files::{self, Named};
use crate::lines::Lines;
use crate::{demangled, error_of_file, note};
use api::Api;
use columns::{Columns, Identity};

/// The page, made of the sources in `ui` by `cargo xtask ui`.
pub const PAGE: &str = include_str!("../../../../ui/dist/view.html");
/// A browser has six or so.
const CONNECTIONS: usize = 32;
/// Why there is no page.
const NOTHING: &str = "no profile could be read, so there is nothing to show";
/// The page asks by links alone.
const BODY_BYTES: usize = 0;

/// Runs the command, until it is interrupted.
pub fn view(args: &ViewArgs) -> Result<u8, Failure> {
    let files = named(&args.files);
    show(&files, args.port, &args.symbols)
}

/// Shows these files, until it is interrupted.
///
/// # Errors
/// If no page can be shown.
pub fn show(files: &[PathBuf], port: u16, symbols: &[PathBuf]) -> Result<u8, Failure> {
    if files.is_empty() {
        return Err(Failure::new(FAILED, NOTHING));
    }
    Lines::check(symbols);
    let limits = Limits::new(CONNECTIONS, BODY_BYTES);
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], port)), limits);
    let server = server.map_err(|error| {
        anyhow!("can't listen at port {port} of this machine: {error}; name another with --port")
    })?;
    let guard = Guard::new(server.address().context("can't tell the port")?);
    let guard = guard.context("the system gives no random numbers for the link")?;
    let link = guard.link();
    let viewer = Arc::new(Viewer::new(guard, files.len()));
    let mut columns = Columns::default();
    let mut left = files.iter();
    // The link leads to something: a file was read.
    while columns.sources.is_empty() {
        let Some(path) = left.next() else { return Err(Failure::new(FAILED, NOTHING)) };
        viewer.read(path, &mut columns);
    }
    let handler: Arc<dyn Handler> = viewer.clone();
    let listening = thread::Builder::new()
        .name("view".to_owned())
        .spawn(move || server.run(&handler, &AtomicBool::new(false)))
        .context("can't start a thread")?;
    note(format!("open {link} (good for one use; Ctrl-C ends it)"));
    left.for_each(|path| viewer.read(path, &mut columns));
    let name = names(&columns);
    let _ = viewer.api.set(Api::new(columns, name, Some(symbols.to_vec())));
    let _ = listening.join();
    Ok(0)
}

/// The files that are meant, each once.
fn named(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut known = Named::default();
    let mut all = Vec::new();
    for path in paths {
        match files::expand(path) {
            Ok(files) => all.extend(files.into_iter().filter(|file| known.is_new(file))),
            Err(error) => error_of_file(&error),
        }
    }
    all
}

fn add(columns: &mut Columns, path: &Path, decoded: Decoded) {
    let mut profile = decoded.profile;
    demangled::name(&mut profile);
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let report = profile.report.as_ref();
    let (service, pid) = match (report, FileName::parse(&name)) {
        (Some(report), _) => (report.service.clone(), report.pid),
        (None, Some(named)) => (named.service.to_owned(), u64::from(named.pid)),
        (None, None) => (name.to_string(), 0),
    };
    let instance = if pid == 0 { String::new() } else { pid.to_string() };
    let name = name.to_string();
    let version = report.map(|report| report.service_version.clone()).unwrap_or_default();
    let identity = Identity { name, service, version, instance, pid, ..Identity::default() };
    columns.add(identity, &profile);
}

/// What was profiled: the service, or all of them.
fn names(columns: &Columns) -> String {
    let mut names: Vec<&str> = columns.sources.iter().map(|s| s.service.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// What answers the page.
struct Viewer {
    guard: Guard,
    files: usize,
    /// Files that were read, and those of them that could not be.
    done: AtomicUsize,
    problems: AtomicUsize,
    /// Once all is read.
    api: OnceLock<Api>,
}

impl Viewer {
    fn new(guard: Guard, files: usize) -> Self {
        let (done, problems) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { guard, files, done, problems, api: OnceLock::new() }
    }

    /// Adds what a file holds, or says why it can't be read.
    fn read(&self, path: &Path, columns: &mut Columns) {
        match files::read(path) {
            Ok(decoded) => add(columns, path, decoded),
            Err(error) => {
                self.problems.fetch_add(1, Ordering::Relaxed);
                error_of_file(&error);
            }
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn progress(&self) -> Response {
        let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        let progress = json!({
            "files": self.files,
            "done": number(&self.done),
            "problems": number(&self.problems),
            "is_ready": self.api.get().is_some(),
        });
        Response::json(progress.to_string())
    }
}

impl Handler for Viewer {
    fn answer(&self, request: &Request) -> Response {
        if let Verdict::Answered(response) = self.guard.check(request) {
            return *response;
        }
        if request.method != Method::Get {
            return Response::error(405, "the page only asks");
        }
        match request.path.as_str() {
            "/" => Response::of("text/html; charset=utf-8", PAGE),
            "/api/progress" => self.progress(),
            path => {
                let question = path.strip_prefix("/api/").unwrap_or_default();
                let none = || Response::error(404, "there is nothing here");
                match self.api.get() {
                    Some(api) => api.answer(question, request).unwrap_or_else(none),
                    None => Response::error(503, "the profiles are being read"),
                }
            }
        }
    }
}
