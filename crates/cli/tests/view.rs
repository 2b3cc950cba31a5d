//! `corprof view`: who gets an answer, and what it is; `tests/e2e` looks at it in a browser.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use support::http::{Answer, Running};
use support::made::made;
use support::{Dir, eventually};

/// `corprof view` at work.
struct View {
    running: Running,
    token: String,
}

impl View {
    fn start(dir: &Dir, files: &[&str]) -> Self {
        let running = Running::start(dir.corprof(&[&["view"], files].concat()));
        let token = running.said.split_once("/?token=").unwrap().1;
        let token = token.chars().take_while(char::is_ascii_hexdigit).collect();
        Self { running, token }
    }

    fn ask(&self, path: &str, headers: &str) -> Answer {
        self.running.get(path, headers)
    }

    fn host(&self) -> String {
        format!("Host: {}\r\n", self.running.host)
    }

    /// The headers of a browser that has opened the link.
    fn enter(&self) -> String {
        let Answer { status, head, .. } =
            self.ask(&format!("/?token={}", self.token), &self.host());
        assert_eq!(status, 303, "{head}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
        format!("{}Cookie: {}\r\n", self.host(), cookie.split(';').next().unwrap())
    }
}

#[test]
fn only_who_opened_the_link_gets_an_answer() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile::pprof::write(&made(1, 50), Vec::new()).unwrap());
    let view = View::start(&dir, &["a.pb.gz"]);
    assert!(view.running.host.starts_with("127.0.0.1:"));
    let status = |path: &str, headers: &str| view.ask(path, headers).status;
    let (host, link) = (view.host(), format!("/?token={}", view.token));
    assert_eq!(status("/", &host), 403);
    assert_eq!(status("/api/header", &host), 403);
    assert_eq!(status("/?token=00000000000000000000000000000000", &host), 403);
    // By a name that somebody else has pointed here.
    assert_eq!(status(&link, "Host: evil.example\r\n"), 403);
    let browser = view.enter();
    assert_eq!(status(&link, &host), 403, "a second time");
    let page = view.ask("/", &browser);
    assert!(page.status == 200 && page.text().starts_with("<!DOCTYPE html>"));
    assert!(eventually(|| view.ask("/api/progress", &browser).json()["is_ready"] == true));
    let evil = browser.replace(&view.running.host, "evil.example");
    assert_eq!(status("/api/header", &evil), 403);
    assert_eq!(status("/api/header", &format!("{browser}Origin: http://evil.example\r\n")), 403);
}

#[test]
fn questions_are_answered_or_refused_with_a_reason() {
    let dir = Dir::new();
    let profile = made(2, 200);
    dir.write("a.pb.gz", &profile::pprof::write(&profile, Vec::new()).unwrap());
    let view = View::start(&dir, &["a.pb.gz"]);
    let browser = view.enter();
    assert!(eventually(|| view.ask("/api/header", &browser).status == 200));
    let json = |path: &str| view.ask(path, &browser).json();
    let header = json("/api/header");
    assert_eq!(header["samples"].as_u64().unwrap() as usize, profile.samples.len());
    let flame = view.ask("/api/flame?value=cpu&fold=0", &browser).body;
    let length = u32::from_le_bytes(flame[..4].try_into().unwrap()) as usize;
    let told: serde_json::Value = serde_json::from_slice(&flame[4..4 + length]).unwrap();
    assert_eq!(told["whole"], profile.total().cpu_ns);
    assert!(json("/api/requests")["endpoints"].as_array().unwrap().len() > 3);
    assert!(!json("/api/timeline?slots=100")["lanes"].as_array().unwrap().is_empty());
    for (path, status, says) in [
        ("/api/flame?value=colour", 400, "no such value"),
        ("/api/flame?thread=many", 400, "thread=many"),
        ("/api/flame?from=5&to=4", 400, "ends before"),
        ("/api/flame?epoch=7", 409, "load the page anew"),
        ("/api/sandwich?of=999999999", 400, "no function"),
        ("/api/nothing", 404, "nothing here"),
        ("/../secret", 404, "nothing here"),
    ] {
        let found = view.ask(path, &browser);
        assert!(found.status == status && found.text().contains(says), "{path}: {found:?}");
    }
}

#[test]
fn without_a_profile_there_is_no_page() {
    let dir = Dir::new();
    dir.write("a.pb.gz", b"nonsense");
    for files in [&["a.pb.gz"][..], &["missing"], &["missing", "a.pb.gz"]] {
        let ran = dir.run(&[&["view"], files].concat());
        ran.check(1, &["nothing to show"]);
        assert!(files.iter().all(|file| ran.err.contains(file)), "{}", ran.err);
        assert!(!ran.err.contains("http://"), "a link to nothing: {}", ran.err);
    }
}

#[test]
fn a_run_may_end_in_the_page() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile::pprof::write(&made(3, 20), Vec::new()).unwrap());
    let script = "echo $CORPROF_TIMELINE > timeline; cp a.pb.gz $CORPROF_OUTPUT_DIR/shop_4_0.pb.gz";
    let flags = ["run", "--view", "--out", "out", "--", "sh", "-c", script];
    let running = Running::start(dir.corprof(&flags));
    let token = running.said.split_once("/?token=").unwrap().1;
    let token: String = token.chars().take_while(char::is_ascii_hexdigit).collect();
    let host = format!("Host: {}\r\n", running.host);
    assert_eq!(running.get(&format!("/?token={token}"), &host).status, 303);
    assert_eq!(std::fs::read_to_string(dir.path("timeline")).unwrap(), "true\n");
}
