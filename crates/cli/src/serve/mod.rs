//! `corprof serve`: takes what agents push, keeps it, and shows it.

mod counters;
mod live;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, ensure};
use serde_json::json;
use server::door::Verdict;
use server::gate::Gate;
use server::http::{Handler, Limits, Method, Request, Response, Server};
use server::intake::{self, BODY_BYTES_MAX, Upload};
use server::rate::Rate;
use server::store::{Retention, Store};
use server::turns::Turns;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::view::PAGE;
use crate::{folder, note, warn};
use counters::Counters;
use live::{Live, Span};

/// Connections at once: agents keep none open.
const CONNECTIONS: usize = 256;
/// Pushes that are read at the same time: each may take some hundred megabytes of memory.
const PUSHES: usize = 4;
/// Questions that are answered at the same time: each takes some bytes for every row.
const QUESTIONS: usize = 8;
/// The same of older times, which have columns of their own.
const OLDER: usize = 2;
/// How often what is old is deleted.
const MAINTENANCE: Duration = Duration::from_secs(30);
/// Letters of a token, below which it could be guessed.
const TOKEN_LETTERS_MIN: usize = 16;
const VARIABLE: &str = "CORPROF_SERVE_TOKEN";

/// Runs the command, until it is interrupted.
pub fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let token = token(args)?;
    let limits = Limits::new(CONNECTIONS, BODY_BYTES_MAX);
    let listen = args.listen;
    let server = Server::bind(listen, limits).map_err(|error| {
        anyhow!("can't listen at {listen}: {error}; name another address or port with --listen")
    })?;
    let address = server.address().context("can't tell the port")?;
    let gate = Gate::new(address, token).map_err(|error| {
        anyhow!(
            "can't listen at {address}: {error}; put one in {VARIABLE}, or in a file and name it \
             with --token-file"
        )
    })?;
    let data = args.data.display();
    let retention = Retention { seconds: args.keep.as_secs(), bytes: args.keep_bytes };
    let store = folder::refuse_file(&args.data)
        .and_then(|()| Ok(Store::open(&args.data, retention)?))
        .map_err(|error| {
            anyhow!("can't use the folder {data}: {error}; name another with --data")
        })?;
    let found = store.numbers();
    if found.damaged > 0 {
        warn(format!("{} records in {data} are damaged; passed over", found.damaged));
    }
    if found.cut > 0 {
        note(format!("cut off {} bytes that were being written at the last end", found.cut));
    }
    let (wake, woken) = mpsc::sync_channel(1);
    let live = Live::new(store, args.window.as_secs(), now(), wake);
    let service = Arc::new(Service {
        gate,
        live,
        rate: Mutex::new(Rate::default()),
        pushes: Turns::new(PUSHES),
        questions: Turns::new(QUESTIONS),
        older: Turns::new(OLDER),
        counters: Counters::default(),
    });
    maintain(Arc::clone(&service), woken).context("can't start a thread")?;
    note(format!(
        "takes profiles at http://{address}/v1/push, shows {} of them at http://{address}/",
        found.profiles
    ));
    let handler: Arc<dyn Handler> = service;
    server.run(&handler, &AtomicBool::new(false));
    Ok(0)
}

fn token(args: &ServeArgs) -> anyhow::Result<Option<String>> {
    let token = match &args.token_file {
        Some(file) => {
            let text = fs::read_to_string(file);
            let text = text.with_context(|| format!("{}: can't read it", file.display()))?;
            Some(text.trim().to_owned())
        }
        None => std::env::var(VARIABLE).ok().filter(|token| !token.is_empty()),
    };
    if let Some(token) = &token {
        ensure!(
            token.len() >= TOKEN_LETTERS_MIN,
            "the token has fewer than {TOKEN_LETTERS_MIN} letters and could be guessed; \
             `openssl rand -hex 16` makes one"
        );
    }
    Ok(token)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Deletes what is old, and makes room in memory: from time to time, and when it is woken.
fn maintain(service: Arc<Service>, woken: Receiver<()>) -> std::io::Result<()> {
    let work = move || {
        loop {
            let _ = woken.recv_timeout(MAINTENANCE);
            // Whatever one profile does, what is old goes.
            let done = catch_unwind(AssertUnwindSafe(|| service.live.maintain(now())));
            match done {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn(format!("old profiles can't be deleted: {error}")),
                Err(_) => warn("a fault of corprof's own in making room; please report it"),
            }
        }
    };
    thread::Builder::new().name("maintain".to_owned()).spawn(work).map(drop)
}

/// What answers.
struct Service {
    gate: Gate,
    live: Live,
    rate: Mutex<Rate>,
    pushes: Turns,
    questions: Turns,
    /// Questions about older times: each may have columns of its own.
    older: Turns,
    counters: Counters,
}

impl Service {
    fn push(&self, request: &Request) -> Response {
        let _turn = self.pushes.take();
        if self.live.is_full() {
            let text = "more is pushed than can be held in memory; send it again later";
            return Response::error(503, text).with("Retry-After", "30");
        }
        let now = now();
        let uploads = match intake::take(request, now) {
            Ok(uploads) => uploads,
            Err(refusal) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                return Response::error(refusal.status, &refusal.text);
            }
        };
        if uploads.iter().all(Upload::is_probe) {
            return intake::taken(&request.path, 0);
        }
        let sender = uploads.first().map_or(String::new(), |upload| {
            format!("{}\n{}", upload.meta.service, upload.meta.instance)
        });
        let rated = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(&sender, now);
        if let Err(seconds) = rated {
            self.counters.limited.fetch_add(1, Ordering::Relaxed);
            let text = "this service's instance pushes too often: once a second is the most; send \
                        it again later";
            return Response::error(429, text).with("Retry-After", seconds.to_string());
        }
        let sums = |uploads: &[Upload]| {
            let bytes: usize = uploads.iter().map(|upload| upload.bytes.len()).sum();
            (uploads.len() as u64, bytes as u64)
        };
        let (count, bytes) = sums(&uploads);
        match self.live.put(uploads, now) {
            Ok(repeated) => {
                let (left_out, bytes_left_out) = sums(&repeated);
                self.counters.taken.fetch_add(count - left_out, Ordering::Relaxed);
                self.counters.bytes.fetch_add(bytes - bytes_left_out, Ordering::Relaxed);
                self.tell_repeated(&repeated);
                intake::taken(&request.path, repeated.len())
            }
            Err(error) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                warn(format!("profiles can't be written, and their sender was told so: {error}"));
                not_written(&error)
            }
        }
    }

    /// Counts what was there already, and says so the first time. Its sender is told that it was
    /// taken, which is what it did not hear before.
    fn tell_repeated(&self, repeated: &[Upload]) {
        let Some(Upload { meta, .. }) = repeated.first() else { return };
        let before = self.counters.repeated.fetch_add(repeated.len() as u64, Ordering::Relaxed);
        if before == 0 {
            let who = format!("{} {}", meta.service, meta.instance);
            note(format!(
                "{} sent a profile that is there already; it counts once, and what else is sent \
                 again is in corprof_profiles_repeated_total of /metrics",
                who.trim_end()
            ));
        }
    }

    fn ask(&self, question: &str, request: &Request) -> Response {
        if question == "progress" {
            let progress = json!({
                "files": 0, "done": 0, "problems": 0, "is_ready": true,
                "store": self.live.period().unwrap_or_default(),
            });
            return Response::json(progress.to_string());
        }
        let begin = Instant::now();
        // Whoever waits for a turn holds no columns that others have replaced.
        let (_turn, api) = match request.part("span").map(span) {
            None => (self.questions.take(), self.live.api()),
            Some(None) => return Response::error(400, "span= is FROM-TO, in microseconds"),
            Some(Some(span)) => (
                self.older.take(),
                match self.live.span(span) {
                    Ok(api) => api,
                    Err(error) => return Response::error(400, &format!("{error:#}")),
                },
            ),
        };
        let answer = api.answer(question, request);
        self.counters.answered(begin.elapsed());
        answer.unwrap_or_else(|| Response::error(404, "there is nothing here"))
    }

    fn metrics(&self) -> Response {
        let rows = self.live.api().columns().rows.len();
        let text = self.counters.text(self.live.numbers(), rows);
        Response::of("text/plain; version=0.0.4", text)
    }
}

/// What is said to the sender of a profile that can't be written. It keeps it, and may send it
/// again.
fn not_written(error: &io::Error) -> Response {
    let text = format!(
        "the profile can't be written here: {error}; nothing of it is kept, send it again later"
    );
    Response::error(507, &text).with("Retry-After", "60")
}

/// `FROM-TO`, in microseconds since 1970.
fn span(text: &str) -> Option<Span> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from < to).then_some((from, to))
}

impl Handler for Service {
    fn refuses(&self, head: &Request) -> Option<Response> {
        match self.gate.check(head) {
            Verdict::Answered(response) => Some(*response),
            Verdict::Passed => None,
        }
    }

    fn answer(&self, request: &Request) -> Response {
        if request.path == "/health" {
            return Response::of("text/plain", "ok\n");
        }
        if let Verdict::Answered(response) = self.gate.check(request) {
            return *response;
        }
        match (request.method, request.path.as_str()) {
            (Method::Post, path) if intake::is_push(path) => self.push(request),
            (Method::Get, path) if intake::is_push(path) => {
                Response::error(405, "profiles are sent here by POST")
            }
            (Method::Get, "/") => Response::of("text/html; charset=utf-8", PAGE),
            (Method::Get, "/metrics") => self.metrics(),
            (Method::Get, path) => {
                let question = path.strip_prefix("/api/").unwrap_or_default();
                self.ask(question, request)
            }
            _ => Response::error(404, "there is nothing here"),
        }
    }
}
