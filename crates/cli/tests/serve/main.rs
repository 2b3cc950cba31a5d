//! `corprof serve`: what is pushed is there, whatever happens; what makes no sense changes nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod again;
mod limits;
mod load;
#[path = "../support/mod.rs"]
mod support;

use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use profile::otlp::{Sender, request as otlp_request};
use profile::pprof::{Dialect, write_for};
use profile::pyroscope::push_request;
use profile::{Profile, SelfReport, StringIndex, Thread};
use support::Dir;
use support::http::{Answer, Running, ask};
use support::made::made;
use testing::Random;

const OTLP: &str = "/v1development/profiles";

fn serve(dir: &Dir, more: &[&str]) -> Running {
    let flags = [&["serve", "--listen", "127.0.0.1:0", "--data", "data"], more].concat();
    Running::start(dir.corprof(&flags))
}

/// A profile of the last minute, as an agent writes it.
fn recent(seed: u64, stacks: usize) -> (Profile, Vec<u8>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut profile = made(seed, stacks);
    profile.period.start_unix_ns = (now - Duration::from_secs(60)).as_nanos() as u64;
    let bytes = profile::pprof::write(&profile, Vec::new()).unwrap();
    (profile, bytes)
}

/// A profile as it is without compression.
fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut plain).unwrap();
    plain
}

/// What begins a field that no reader knows, of so many bytes, which are to follow.
fn unknown_field(length: usize) -> Vec<u8> {
    let mut head = vec![0xba, 0xb8, 0x02];
    let mut left = length;
    while left >= 0x80 {
        head.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    head.push(left as u8);
    head
}

fn header(server: &Running) -> serde_json::Value {
    server.get("/api/header", &host(server)).json()
}

fn host(server: &Running) -> String {
    format!("Host: {}\r\n", server.host)
}

/// All nanoseconds of a selection.
fn whole(server: &Running, query: &str) -> u64 {
    let flame = server.get(&format!("/api/flame?fold=0&{query}"), &host(server));
    assert_eq!(flame.status, 200, "{}", flame.text());
    let length = u32::from_le_bytes(flame.body[..4].try_into().unwrap()) as usize;
    let told: serde_json::Value = serde_json::from_slice(&flame.body[4..4 + length]).unwrap();
    told["whole"].as_u64().unwrap()
}

#[test]
fn what_each_sender_pushes_can_be_asked_for() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    assert_eq!(server.get("/health", "").text(), "ok\n");
    let (one, bytes) = recent(1, 60);
    let pushed = server.post("/v1/push?service=shop&version=1.0&instance=a&label.zone=b", &bytes);
    assert_eq!(pushed.status, 200, "{}", pushed.text());
    let (two, bytes) = recent(2, 60);
    let labels = [("service_name", "shop"), ("version", "2.0"), ("hostname", "h")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = push_request(&labels, &bytes, "id");
    assert_eq!(server.post("/push.v1.PusherService/Push", &request).status, 200);
    let (three, bytes) = recent(3, 60);
    let pushed = server.post("/ingest?name=other.cpu%7Bversion%3D3%7D&format=pprof", &bytes);
    assert_eq!(pushed.status, 200, "{}", pushed.text());

    let (four, _) = recent(4, 60);
    let resource = [("service.name", "fourth"), ("service.version", "4"), ("host.name", "h")];
    let resource = resource.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let sender = Sender { resource: &resource, pid: 7, version: "0", id: 1 };
    let pushed = server.post("/v1development/profiles", &otlp_request(&four, sender));
    assert_eq!(pushed.status, 200, "{}", pushed.text());

    let header = header(&server);
    let of = |name: &str| {
        let sources = header["sources"].as_array().unwrap().clone();
        sources.iter().map(|source| source[name].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("service"), ["shop", "shop", "other", "fourth"]);
    assert_eq!(of("version"), ["1.0", "2.0", "3", "4"]);
    assert_eq!(of("instance"), ["a", "h", "", "7"]);
    let cpu = |profile: &Profile| profile.total().cpu_ns;
    assert_eq!(whole(&server, "service=shop"), cpu(&one) + cpu(&two));
    assert_eq!(whole(&server, "version=2.0"), cpu(&two));
    assert_eq!(whole(&server, "instance=a"), cpu(&one));
    assert_eq!(whole(&server, "label=zone%3Db"), cpu(&one));
    assert_eq!(whole(&server, "service=fourth"), cpu(&four));
    assert_eq!(whole(&server, "label=host%3Dh"), cpu(&four));
    assert_eq!(whole(&server, ""), cpu(&one) + cpu(&two) + cpu(&three) + cpu(&four));
    // Of an older time, read from the disk.
    let begin = one.period.start_unix_ns / 1_000;
    let span = format!("service=other&span={}-{}", begin - 5, begin + 30_000_000);
    assert_eq!(whole(&server, &span), cpu(&three));
    let nothing = server.get("/api/header?span=1-2", &host(&server));
    assert!(nothing.status == 400 && nothing.text().contains("no profiles of that time"));
    // What changed between the versions.
    let diff = "/api/diff?base.version=1.0&new.version=2.0";
    assert!(!server.get(diff, &host(&server)).json()["rows"].as_array().unwrap().is_empty());
    assert_eq!(metric(&server, "corprof_profiles_taken_total"), 4);
    assert_eq!(metric(&server, "corprof_store_profiles"), 4);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (_, bytes) = recent(1, 20);
    assert_eq!(server.post("/v1/push?service=shop", &bytes).status, 200);
    let before = store_bytes(&dir);
    let mut future = made(1, 5);
    future.period.start_unix_ns = u64::MAX / 2;
    let future = profile::pprof::write(&future, Vec::new()).unwrap();
    let long = format!("/v1/push?service={}", "x".repeat(2_000));
    for (path, body, status, says) in [
        ("/v1/push?service=shop", b"nonsense".as_slice(), 400, "no profile"),
        ("/v1/push?service=shop", b"", 400, "no profile"),
        ("/v1/push?service=shop", &bytes[..bytes.len() / 2], 400, "no profile"),
        ("/v1/push", &bytes, 400, "which service"),
        ("/v1/push?service=shop", &future, 400, "future"),
        (&long, &bytes, 400, "too long"),
        ("/v1/push?service=a%00b", &bytes, 400, "\"a\\0b\" has control characters"),
        ("/v1/push?service=a&version=1%0A", &bytes, 400, "control characters"),
        ("/v1/push?service=a&instance=%1B%5B2J", &bytes, 400, "control characters"),
        ("/v1/push?service=a&label.zone=%7F", &bytes, 400, "control characters"),
        ("/v1/push?service=a&label.%C2%85=b", &bytes, 400, "control characters"),
        ("/ingest?name=a%00b", &bytes, 400, "control characters"),
        ("/push.v1.PusherService/Push", b"\xff\xff", 400, "no push request"),
        ("/push.v1.PusherService/Push", b"", 400, "no profile in it"),
        ("/ingest?name=a", b"nonsense", 400, "no profile"),
        (OTLP, b"\xff", 400, "no OTLP request"),
        ("/v1/other", &bytes, 404, "nothing here"),
    ] {
        let answer = server.post(path, body);
        let Answer { status: found, .. } = answer;
        assert!(found == status && answer.text().contains(says), "{path}: {}", answer.text());
        // Nobody is told of a format that is not taken there.
        assert!(path != OTLP || !answer.text().contains("pprof"), "{}", answer.text());
    }
    // Whatever way it comes.
    let labels = [("service_name".to_owned(), "a\nb".to_owned())];
    let pushed = push_request(&labels, &bytes, "1");
    assert_eq!(server.post("/push.v1.PusherService/Push", &pushed).status, 400);
    let resource = [("service.name".to_owned(), "a\nb".to_owned())];
    let sender = Sender { resource: &resource, pid: 7, version: "0", id: 1 };
    assert_eq!(server.post(OTLP, &otlp_request(&made(1, 5), sender)).status, 400);
    // Of several profiles one that makes no sense: none is taken.
    let labels = [("service_name".to_owned(), "shop".to_owned())];
    let both = [push_request(&labels, &bytes, "1"), push_request(&labels, b"x", "2")].concat();
    assert_eq!(server.post("/push.v1.PusherService/Push", &both).status, 400);
    let huge = ask(&server.host, "POST", "/v1/push", "Content-Length: 99999999\r\n", b"");
    assert!(huge.is_none_or(|answer| answer.status == 400 || answer.status == 413));
    assert_eq!(header(&server)["sources"].as_array().unwrap().len(), 1);
    assert_eq!(store_bytes(&dir), before);
}

/// What waited at its sender for hours is on disk, and not among the latest.
#[test]
fn what_comes_late_is_of_its_own_time() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (mut old, _) = recent(1, 20);
    old.period.start_unix_ns -= 5 * 3_600 * 1_000_000_000;
    let bytes = profile::pprof::write(&old, Vec::new()).unwrap();
    assert_eq!(server.post("/v1/push?service=shop", &bytes).status, 200);
    assert_eq!(header(&server)["sources"].as_array().unwrap().len(), 0);
    let begin_us = old.period.start_unix_ns / 1_000;
    let span = format!("span={begin_us}-{}", begin_us + 1_000_000);
    assert_eq!(whole(&server, &span), old.total().cpu_ns);
}

/// As `corprof top` calls it; also of what is read from the disk.
#[test]
fn the_first_thread_of_a_process_is_its_main_one() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (mut profile, _) = recent(1, 20);
    for (sample, tid) in profile.samples.iter_mut().zip([4711, 4712]) {
        sample.thread = Some(Thread { tid, name: StringIndex::EMPTY });
    }
    profile.report = Some(SelfReport { pid: 4711, ..SelfReport::default() });
    let bytes = profile::pprof::write(&profile, Vec::new()).unwrap();
    assert_eq!(server.post("/v1/push?service=shop", &bytes).status, 200);
    let check = |server: &Running| {
        let threads = header(server)["threads"].clone();
        let has = |name: &str| threads.as_array().unwrap().iter().any(|thread| thread == name);
        assert!(has("main (4711)") && has("[unnamed] (4712)"), "{threads}");
    };
    check(&server);
    drop(server);
    check(&serve(&dir, &[]));
}

#[test]
fn a_try_of_doctor_is_taken_and_not_kept() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let mut doctor = dir.corprof(&["doctor", "--export"]);
    doctor.env("CORPROF_SERVER_URL", format!("http://{}", server.host));
    let tried = doctor.output().unwrap();
    let text = String::from_utf8_lossy(&tried.stdout);
    assert!(tried.status.success() && text.contains("1 of 1 targets take profiles"), "{text}");
    assert_eq!(header(&server)["sources"].as_array().unwrap().len(), 0);
}

/// All bytes of the segments.
fn store_bytes(dir: &Dir) -> u64 {
    let files = std::fs::read_dir(dir.path("data")).unwrap();
    let lengths = files.filter_map(|file| file.ok()?.metadata().ok()).map(|about| about.len());
    lengths.sum()
}

#[test]
fn where_others_reach_it_it_takes_a_token() {
    let dir = Dir::new();
    let open = dir.run(&["serve", "--listen", "0.0.0.0:0"]);
    // The reason, and then what to do.
    open.check(1, &["so it takes a token; put one in CORPROF_SERVE_TOKEN"]);
    dir.write("short", b"abc\n");
    dir.run(&["serve", "--token-file", "short"]).check(1, &["could be guessed"]);
    dir.write("token", b"0123456789abcdef\n");
    let flags = ["serve", "--listen", "0.0.0.0:0", "--token-file", "token", "--data", "data"];
    let mut server = Running::start(dir.corprof(&flags));
    server.host = server.host.replace("0.0.0.0", "127.0.0.1");
    let (_, bytes) = recent(1, 5);
    assert_eq!(server.post("/v1/push?service=a", &bytes).status, 401);
    assert_eq!(server.get("/metrics", "").status, 401);
    assert_eq!(server.get("/health", "").status, 200);
    let with = |token: &str| {
        let headers = format!("Host: profiles\r\nAuthorization: Bearer {token}\r\n");
        ask(&server.host, "POST", "/v1/push?service=a", &headers, &bytes).unwrap().status
    };
    assert_eq!((with("0123456789abcdeF"), with("0123456789abcdef")), (403, 200));
}

#[test]
fn a_killed_server_has_all_that_it_said_it_took() {
    let dir = Dir::new();
    let (_, bytes) = recent(1, 40);
    let mut taken: Vec<String> = Vec::new();
    for round in 0..3 {
        let mut server = serve(&dir, &[]);
        let host = server.host.clone();
        let pushing = thread::scope(|scope| {
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    let (host, bytes) = (&host, &bytes);
                    scope.spawn(move || {
                        let mut taken = Vec::new();
                        for number in 0.. {
                            let instance = format!("{round}-{sender}-{number}");
                            let path = format!("/v1/push?service=shop&instance={instance}");
                            let headers = format!("Host: {host}\r\n");
                            match ask(host, "POST", &path, &headers, bytes) {
                                Some(answer) if answer.status == 200 => taken.push(instance),
                                Some(answer) => panic!("{} {}", answer.head, answer.text()),
                                None => break,
                            }
                        }
                        taken
                    })
                })
                .collect();
            // Somewhere in the middle of something.
            while store_bytes(&dir) < (round + 1) * 150_000 {
                thread::sleep(Duration::from_millis(5));
            }
            server.child.kill().unwrap();
            senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
        });
        taken.extend(pushing);
    }
    let server = serve(&dir, &[]);
    let header = header(&server);
    let sources = header["sources"].as_array().unwrap();
    let there: Vec<&str> = sources.iter().filter_map(|s| s["instance"].as_str()).collect();
    let lost: Vec<_> = taken.iter().filter(|taken| !there.contains(&taken.as_str())).collect();
    assert!(lost.is_empty(), "{} of {} are lost", lost.len(), taken.len());
    assert!(taken.len() > 20, "{} were taken", taken.len());
    assert_eq!(metric(&server, "corprof_store_damaged"), 0);
}

/// A body that was changed somewhere is taken or refused; the server goes on, and holds what it
/// said.
#[test]
fn changed_bodies_are_taken_or_refused() {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(2));
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut random = Random(seed | 1);
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (_, packed) = recent(1, 12);
    let plain = unpacked(&packed);
    let labels = ["service_name", "service.name"].map(|name| (name.to_owned(), "shop".to_owned()));
    let sender = Sender { resource: &labels, pid: 7, version: "0", id: 1 };
    let otlp = otlp_request(&made(1, 12), sender);
    let bodies = [plain.clone(), packed, push_request(&labels, &plain, "1"), otlp];
    let paths = ["/v1/push?service=a", "/ingest?name=a", "/push.v1.PusherService/Push", OTLP];
    let (mut taken, mut refused) = (0_u64, 0_u64);
    while Instant::now() < end {
        let at = random.index(bodies.len());
        let mut body = bodies[at].clone();
        for _ in 0..1 + random.index(4) {
            change(&mut body, &mut random);
        }
        // Each is another sender, so that none has to wait.
        // Mostly where it belongs.
        let path = paths[if random.below(4) == 0 { random.index(paths.len()) } else { at }];
        let joint = if path.contains('?') { '&' } else { '?' };
        let answer = server.post(&format!("{path}{joint}instance={}", taken + refused), &body);
        match answer.status {
            200 => taken += 1,
            400 | 413 | 429 => refused += 1,
            other => panic!("{other} {}: {path} {body:?}", answer.text()),
        }
    }
    println!("{taken} were taken, {refused} refused");
    assert!(refused > 0);
    // One body may have become two profiles, and where nothing of the profile was changed it is
    // there already.
    let all = metric(&server, "corprof_profiles_taken_total");
    let heard = all + metric(&server, "corprof_profiles_repeated_total");
    assert!(heard >= taken && heard <= 2 * taken, "{heard} of {taken}");
    drop(server);
    let server = serve(&dir, &[]);
    assert_eq!(metric(&server, "corprof_store_profiles"), all);
    assert_eq!(metric(&server, "corprof_store_damaged"), 0);
}

/// A number that the server tells.
fn metric(server: &Running, name: &str) -> u64 {
    let metrics = server.get("/metrics", &host(server)).text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse().unwrap()
}

fn change(body: &mut Vec<u8>, random: &mut Random) {
    if body.is_empty() {
        return;
    }
    let at = random.index(body.len());
    match random.below(5) {
        0 => body[at] = random.below(256) as u8,
        1 => body[at] ^= 1 << random.below(8),
        2 => body.truncate(at),
        3 => body.insert(at, random.below(256) as u8),
        _ => {
            let from = random.index(body.len());
            let to = (from + random.index(64)).min(body.len());
            let part = body[from..to].to_vec();
            body.splice(at..at, part);
        }
    }
}

/// The folder is one server's at a time.
#[test]
fn a_second_server_does_not_get_the_folder() {
    let dir = Dir::new();
    let _first = serve(&dir, &[]);
    let second = dir.run(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    second.check(1, &["another corprof serve", "--data"]);
    assert!(Path::new(&dir.path("data")).exists());
}
