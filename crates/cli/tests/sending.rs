//! `corprof upload`, `flush` and `doctor --export`, against a server that says one thing.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use profile::{Aggregate, Limits, Period, SampleKey, SelfReport, ThreadKey, Values};

/// A server that answers each request with this status; tells of each its first line and its bytes.
fn server(status: u16) -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            let length = loop {
                let n = stream.read(&mut buffer).unwrap();
                bytes.extend_from_slice(&buffer[..n]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                break end + 4 + length.unwrap().parse::<usize>().unwrap();
            };
            while bytes.len() < length {
                let n = stream.read(&mut buffer).unwrap();
                bytes.extend_from_slice(&buffer[..n]);
            }
            let first = String::from_utf8_lossy(&bytes).lines().next().unwrap().to_owned();
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\n\r\nwhy");
            stream.write_all(answer.as_bytes()).unwrap();
            tell.send((first, bytes)).unwrap();
        }
    });
    (url, told)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("corprof-sending-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _left = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn write_profile(folder: &Path) -> PathBuf {
    let mut aggregate = Aggregate::new(Limits::HOST);
    let frame = aggregate.synthetic_frame("Work()");
    let stack = aggregate.stack([frame]);
    let key = SampleKey { stack, thread: ThreadKey::NONE, state: None, span: None, labels: 0 };
    let _kept = aggregate.add(&key, Values { count: 1, cpu_ns: 5, wall_ns: 0, gc_ns: 0 });
    let period = Period { start_unix_ns: 1, duration_ns: 1, cpu_interval_ns: 1 };
    let mut profile = aggregate.take(period).profile;
    profile.report =
        Some(SelfReport { service: "shop-of-the-file".into(), pid: 7, ..SelfReport::default() });
    let file = folder.join("shop_7_0000.pb.gz");
    fs::write(&file, profile::pprof::write(&profile, Vec::new()).unwrap()).unwrap();
    file
}

fn corprof(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corprof"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CORPROF_", "DD_", "OTEL_", "PYROSCOPE_"].iter().any(|own| name.starts_with(own)) {
            command.env_remove(&*name);
        }
    }
    command.args(words).envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    // Lines are wrapped where the terminal would end.
    String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn files_are_sent_to_each_target() {
    let folder = Folder::new("upload");
    let file = write_profile(&folder.0);
    let (url, told) = server(200);
    let to: Vec<String> =
        ["pyroscope", "otlp", "datadog"].iter().map(|name| format!("--to={name}={url}")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let words = [&["upload", file.to_str().unwrap()], &to[..]].concat();
    let output = corprof(&words, &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("3 sent, 0 not taken"), "{}", said(&output));
    let mut lines = Vec::new();
    for (line, bytes) in told.iter().take(3) {
        // OTLP is packed.
        let has_service = bytes.windows(16).any(|bytes| bytes == b"shop-of-the-file");
        assert!(has_service || line.contains("v1development"), "{line}");
        lines.push(line);
    }
    lines.sort();
    let paths = ["/profiling/v1/input", "/push.v1.PusherService/Push", "/v1development/profiles"];
    for (line, path) in lines.iter().zip(paths) {
        assert_eq!(*line, format!("POST {path} HTTP/1.1"));
    }
}

#[test]
fn what_is_not_taken_is_said_and_the_exit_code_is_1() {
    let folder = Folder::new("refused");
    write_profile(&folder.0);
    let (url, _told) = server(403);
    let output = corprof(
        &["upload", folder.0.to_str().unwrap(), "--to", "pyroscope"],
        &[("PYROSCOPE_SERVER_ADDRESS", &url), ("PYROSCOPE_AUTH_TOKEN", "planted-token")],
    );
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("status 403 (no access"), "{said}");
    assert!(!said.contains("planted"), "{said}");
}

/// Also which variable it is that the server misses.
#[test]
fn who_sends_no_token_is_told_where_to_set_it() {
    let folder = Folder::new("unknown");
    let file = write_profile(&folder.0);
    let (url, _told) = server(401);
    let upload = |to: &str| {
        let output = corprof(&["upload", file.to_str().unwrap(), "--to", to], &[]);
        assert_eq!(output.status.code(), Some(1));
        said(&output)
    };
    let text = upload(&format!("corprof={url}"));
    assert!(text.contains("status 401") && text.contains("set CORPROF_SERVER_TOKEN to"), "{text}");
    let text = upload(&format!("pyroscope={url}"));
    assert!(text.contains("set CORPROF_PYROSCOPE_TOKEN, or"), "{text}");
    let output = corprof(&["doctor", "--export"], &[("CORPROF_SERVER_URL", url.as_str())]);
    let text = said(&output);
    assert!(text.contains("set CORPROF_SERVER_TOKEN to"), "{text}");
    // What has nothing to do with tokens says nothing of them.
    let (url, _told) = server(400);
    assert!(!upload(&format!("corprof={url}")).contains("TOKEN"));
}

#[test]
fn a_file_that_names_no_service_needs_one() {
    let folder = Folder::new("unserved");
    let file = write_profile(&folder.0);
    let mut profile = profile::read::decode(&fs::read(&file).unwrap()).unwrap().profile;
    profile.report = None;
    fs::write(&file, profile::pprof::write(&profile, Vec::new()).unwrap()).unwrap();
    let (url, told) = server(200);
    let words = ["upload", file.to_str().unwrap(), "--to", &format!("corprof={url}")];
    let output = corprof(&words, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("set CORPROF_SERVICE=NAME"), "{}", said(&output));
    let output = corprof(&words, &[("CORPROF_SERVICE", "shop")]);
    assert!(output.status.success(), "{}", said(&output));
    let sent = told.recv().unwrap().1;
    // A label of the push, by its length.
    let label = b"\x12\x04shop";
    assert!(sent.windows(label.len()).any(|part| part == label), "{}", sent.escape_ascii());
}

#[test]
fn a_target_has_to_be_named() {
    let folder = Folder::new("unnamed");
    let file = write_profile(&folder.0);
    for words in [&["--to", "grafana"][..], &["--to=pyroscope=nowhere"], &[]] {
        let words = [&["upload", file.to_str().unwrap()], words].concat();
        // Tracing's address is none for profiles.
        let output = corprof(&words, &[("DD_TRACE_AGENT_URL", "http://127.0.0.1:1")]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
}

#[test]
fn what_waits_in_a_folder_is_sent_and_gone() {
    use config::Target;
    let folder = Folder::new("flush");
    let parcel = export::Parcel {
        target: Target::Pyroscope,
        start_unix_ns: 5,
        content_type: "application/proto".into(),
        is_gzipped: false,
        body: b"body".to_vec().into(),
    };
    for n in 0..3 {
        // Their owner has died: nobody holds its lock.
        let name = format!("00000000000000aa_pyroscope-0123456789abcdef_{n:020}_{n}.parcel");
        fs::write(folder.0.join(name), parcel.to_bytes()).unwrap();
    }
    let path = folder.0.to_str().unwrap();
    let (other, _told) = server(200);
    let output = corprof(&["flush", path, "--to", &format!("otlp={other}")], &[]);
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains("3 profiles for pyroscope still in"), "{text}");
    assert!(text.contains("with --to pyroscope"), "{text}");
    let (down, _told) = server(500);
    let output = corprof(&["flush", path, "--to", &format!("pyroscope={down}")], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("3 waiting on disk"), "{}", said(&output));
    let (up, told) = server(200);
    let output = corprof(&["flush", path, "--to", &format!("pyroscope={up}")], &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(told.iter().take(3).filter(|(_, bytes)| bytes.ends_with(b"body")).count(), 3);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left");
}

#[test]
fn doctor_tries_each_target() {
    let (good, told) = server(200);
    let (bad, _told) = server(404);
    let variables = [("PYROSCOPE_SERVER_ADDRESS", good.as_str()), ("CORPROF_OTLP_ENDPOINT", &bad)];
    let output = corprof(&["doctor", "--export"], &variables);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("took a tiny profile"), "{text}");
    assert!(text.contains("status 404") && text.contains("1 of 2 targets"), "{text}");
    assert!(told.recv().unwrap().0.contains("PusherService"));
    let (serve, told) = server(200);
    let output = corprof(&["doctor", "--export"], &[("CORPROF_SERVER_URL", serve.as_str())]);
    assert!(said(&output).contains("1 of 1 targets"), "{}", said(&output));
    assert!(told.recv().unwrap().0.contains("PusherService"));
    let output = corprof(&["doctor", "--export"], &[("CORPROF_SERVER_URL", "localhost:nowhere")]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("corprof can't be sent to"), "{text}");
    let output = corprof(&["doctor", "--export"], &[]);
    assert!(said(&output).contains("no target is named"), "{}", said(&output));
}

/// What a process that is alive keeps there is its own, and still waits.
#[cfg(target_os = "linux")]
#[test]
fn what_belongs_to_a_process_that_is_alive_is_told() {
    let folder = Folder::new("held");
    let owner = "00000000000000bb";
    let lock = fs::File::create(folder.0.join(format!("{owner}.lock"))).unwrap();
    lock.lock().unwrap();
    for n in 0..2 {
        let name = format!("{owner}_pyroscope-0123456789abcdef_{n:020}_{n}.parcel");
        fs::write(folder.0.join(name), "").unwrap();
    }
    let (url, _told) = server(200);
    let path = folder.0.to_str().unwrap();
    let output = corprof(&["flush", path, "--to", &format!("pyroscope={url}")], &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let pid = std::process::id();
    let words = format!("2 profiles for pyroscope belong to process {pid}, which is alive");
    assert!(text.contains(&words), "{text}");
    drop(lock);
}

/// As it was written: the variable or flag, and its value, without passwords.
#[test]
fn what_is_no_address_is_named_as_it_was_written() {
    let folder = Folder::new("named");
    let file = write_profile(&folder.0);
    let file = file.to_str().unwrap();
    let upload = ["upload", file, "--to", "pyroscope"];
    for (words, variable, told) in [
        (&["doctor", "--export"][..], "foo", "PYROSCOPE_SERVER_ADDRESS=foo is no address: it"),
        (&["doctor", "--export"], "http://me:planted@:1", "ADDRESS=http://…@:1 is no address: it"),
        (&upload, "foo", "PYROSCOPE_SERVER_ADDRESS=foo is no address"),
        (
            &["upload", file, "--to", "pyroscope=localhost:4040"],
            "",
            "--to pyroscope=localhost:4040 is no address: it begins with neither",
        ),
        (
            &["run", "--server-url", "foo", "--", "true"],
            "",
            "invalid value 'foo' for '--server-url <TEXT>': no address: it begins with neither",
        ),
    ] {
        let output = corprof(words, &[("PYROSCOPE_SERVER_ADDRESS", variable)]);
        let text = said(&output);
        assert!(!output.status.success() && text.contains(told), "{text}");
        assert!(!text.contains("planted") && !text.contains("PYROSCOPE_URL"), "{text}");
    }
}
