//! The client against servers that misbehave, over TCP, sockets, TLS and proxies; and the exporter
//! with its thread.
#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::{Config, ExportConfig, Secret};
use e2e::wire::pushed;
use e2e::{Intake, Manners};
use export::{Address, Answer, Client, Cut, Exporter, Fault, Identity, Post as _, Request, Stage};
use profile::{Aggregate, Period, Profile, SelfReport};

/// Longer than anything here takes that is not held up on purpose.
const LIMIT: Duration = Duration::from_secs(20);

fn request(url: &str, bytes: usize) -> Request {
    Request {
        address: Address::parse(url).expect("an address"),
        headers: vec![("Content-Type".into(), Secret::new("x".into()))],
        body: vec![7; bytes].into(),
    }
}

/// Far from the minute that a slow server takes, and far from what is asked for, however busy the
/// machine.
const PROMPT: Duration = Duration::from_secs(30);

fn post(config: &ExportConfig, url: &str, limit: Duration) -> Result<Answer, Fault> {
    let mut client = Client::new(config, Cut::default()).expect("a client");
    client.post(&request(url, 100_000), limit)
}

#[test]
fn whatever_the_server_does_there_is_an_end_and_a_reason() -> Result<()> {
    let short = Duration::from_secs(2);
    for (manners, expected) in [
        (Manners::Good, Ok(200)),
        (Manners::Status(429, "Retry-After: 7\r\n"), Ok(429)),
        (Manners::Status(413, ""), Ok(413)),
        (Manners::Early(413), Ok(413)),
        (Manners::Slow, Err(Fault::Late { stage: Stage::Answer, limit: short })),
        (Manners::Closes, Err(Fault::Closed(Stage::Answer))),
        (Manners::Garbage, Err(Fault::NotHttp)),
        (Manners::Huge, Err(Fault::HeadTooLarge)),
    ] {
        let intake = Intake::start()?;
        intake.be(manners.clone());
        let begin = Instant::now();
        // Only where it has to end: on a busy machine a good answer may be late, too.
        let limit = if matches!(manners, Manners::Slow) { short } else { LIMIT };
        let answer = post(&ExportConfig::default(), &intake.url(), limit);
        ensure!(begin.elapsed() < PROMPT, "{manners:?} took {:?}", begin.elapsed());
        if let Ok(answer) = &answer
            && answer.status == 429
        {
            ensure!(answer.retry_after == Some(Duration::from_secs(7)), "{answer:?}");
        }
        // Who hangs up early may be faster than his answer.
        let was_early = matches!(manners, Manners::Early(_)) && answer.is_err();
        let answer = answer.map(|answer| answer.status);
        ensure!(was_early || answer == expected, "{manners:?}: {answer:?}");
    }
    let intake = Intake::start()?;
    intake.be(Manners::Resets);
    let answer = post(&ExportConfig::default(), &intake.url(), short);
    ensure!(answer.is_err(), "{answer:?}");
    Ok(())
}

/// Who keeps the connection open though we asked to have it closed, who sends more than anybody
/// reads, who wants us elsewhere.
#[test]
fn whoever_answers_oddly_is_understood_and_costs_no_time() -> Result<()> {
    let moved = "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n";
    let bomb =
        "HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n\x1f\x08bombbomb";
    for (bytes, status) in [
        ("HTTP/1.1 200 OK\r\n\r\n", 200),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", 200),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 200),
        ("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", 500),
        (moved, 302),
        (bomb, 500),
    ] {
        let intake = Intake::start()?;
        intake.be(Manners::Keeps(bytes));
        let begin = Instant::now();
        let answer = post(&ExportConfig::default(), &intake.url(), LIMIT);
        ensure!(begin.elapsed() < LIMIT / 2, "{bytes} took {:?}", begin.elapsed());
        let answer = answer.map(|answer| answer.status);
        ensure!(answer == Ok(status), "{bytes}: {answer:?}");
    }
    Ok(())
}

/// A host that has a number of the sixth version and no other.
#[test]
fn the_sixth_version_of_the_internet_protocol_will_do() -> Result<()> {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        println!("SKIPPED wire: this machine has no IPv6");
        return Ok(());
    };
    let url = format!("http://[::1]:{}", listener.local_addr()?.port());
    let intake = Arc::new(Intake::start()?);
    let served = Arc::clone(&intake);
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| served.serve(stream)));
    let answer = post(&ExportConfig::default(), &url, LIMIT);
    ensure!(answer.as_ref().is_ok_and(|answer| answer.status == 200), "{answer:?}");
    let host = intake.received()[0].header("host").to_owned();
    ensure!(url.ends_with(&host), "{host} and {url}");
    intake.check()
}

#[test]
fn nobody_there_is_said_at_once() -> Result<()> {
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let refused = post(&ExportConfig::default(), &format!("http://127.0.0.1:{free}"), LIMIT);
    let kind = std::io::ErrorKind::ConnectionRefused;
    ensure!(refused == Err(Fault::Io { stage: Stage::Connecting, kind }), "{refused:?}");
    let nowhere = post(&ExportConfig::default(), "unix:///nowhere/dd.sock", LIMIT);
    let kind = std::io::ErrorKind::NotFound;
    ensure!(nowhere == Err(Fault::Io { stage: Stage::Connecting, kind }), "{nowhere:?}");
    Ok(())
}

#[test]
fn who_ends_the_process_doesnt_wait_for_a_slow_server() -> Result<()> {
    let intake = Intake::start()?;
    intake.be(Manners::Slow);
    let cut = Cut::default();
    let mut client = Client::new(&ExportConfig::default(), cut.clone()).expect("a client");
    let request = request(&intake.url(), 10);
    let sending = thread::spawn(move || client.post(&request, Duration::from_secs(300)));
    intake.wait(|received| !received.is_empty())?;
    let begin = Instant::now();
    cut.after(Duration::from_millis(200));
    let answer = sending.join().expect("no panic");
    ensure!(answer == Err(Fault::Time(Stage::Answer)), "{answer:?}");
    ensure!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
    Ok(())
}

fn temporary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("corprof-wire-{name}-{}", std::process::id()));
    let _left = fs::remove_dir_all(&path);
    let _left = fs::remove_file(&path);
    path
}

#[test]
fn a_socket_is_a_file() -> Result<()> {
    let path = temporary("socket");
    let intake = Intake::start_at(&path)?;
    let answer = post(&ExportConfig::default(), &format!("unix://{}", path.display()), LIMIT);
    ensure!(answer.as_ref().is_ok_and(|answer| answer.status == 200), "{answer:?}");
    intake.check()?;
    fs::remove_file(&path)?;
    // One that takes no connection any more is not waited for for ever.
    let _nobody_accepts = UnixListener::bind(&path)?;
    let mut held = Vec::new();
    let url = format!("unix://{}", path.display());
    let begin = Instant::now();
    for _ in 0..300 {
        let mut client = Client::new(&ExportConfig::default(), Cut::default()).expect("a client");
        let answer = client.post(&request(&url, 1), Duration::from_millis(5));
        ensure!(answer.is_err(), "{answer:?}");
        held.push(client);
    }
    ensure!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    fs::remove_file(&path)?;
    Ok(())
}

/// A server with TLS, whose certificate is of an authority of its own.
struct Encrypted {
    port: u16,
    authority: PathBuf,
    intake: Arc<Intake>,
}

fn encrypted(name: &str, host: &str) -> Result<Encrypted> {
    encrypted_until(name, host, None)
}

/// The same with a certificate that is good until the end of a year.
fn encrypted_until(name: &str, host: &str, year: Option<i32>) -> Result<Encrypted> {
    let authority_key = rcgen::KeyPair::generate()?;
    let mut authority = rcgen::CertificateParams::new(Vec::new())?;
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(vec![host.to_owned()])?;
    if let Some(year) = year {
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
    }
    let certificate = params.signed_by(&key, &issuer)?;
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    let file = temporary(name);
    fs::write(&file, authority_pem)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let intake = Arc::new(Intake::start()?);
    let (served, config) = (Arc::clone(&intake), Arc::new(config));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(connection) = rustls::ServerConnection::new(Arc::clone(&config)) else { return };
            served.serve(rustls::StreamOwned::new(connection, stream));
        }
    });
    Ok(Encrypted { port, authority: file, intake })
}

#[test]
fn tls_trusts_whom_it_is_told_to_and_nobody_else() -> Result<()> {
    let server = encrypted("ca.pem", "localhost")?;
    let url = format!("https://localhost:{}", server.port);
    let trusting =
        ExportConfig { ca_file: Some(server.authority.clone()), ..ExportConfig::default() };
    let answer = post(&trusting, &url, LIMIT);
    ensure!(answer.as_ref().is_ok_and(|answer| answer.status == 200), "{answer:?}");
    server.intake.check()?;
    let other = encrypted("other.pem", "localhost")?;
    let wrong = ExportConfig { ca_file: Some(other.authority.clone()), ..ExportConfig::default() };
    let answer = post(&wrong, &url, LIMIT);
    ensure!(matches!(answer, Err(Fault::Tls(_))), "{answer:?}");
    // The right authority, for another name.
    let elsewhere = encrypted("elsewhere.pem", "elsewhere")?;
    let named =
        ExportConfig { ca_file: Some(elsewhere.authority.clone()), ..ExportConfig::default() };
    let answer = post(&named, &format!("https://localhost:{}", elsewhere.port), LIMIT);
    ensure!(matches!(answer, Err(Fault::Tls(_))), "{answer:?}");
    let expired = encrypted_until("expired.pem", "localhost", Some(2020))?;
    let named =
        ExportConfig { ca_file: Some(expired.authority.clone()), ..ExportConfig::default() };
    let answer = post(&named, &format!("https://localhost:{}", expired.port), LIMIT);
    let is_said = matches!(&answer, Err(Fault::Tls(why)) if why.contains("xpired"));
    ensure!(is_said, "{answer:?}");
    let none = ExportConfig { ca_file: Some("/nowhere.pem".into()), ..ExportConfig::default() };
    ensure!(post(&none, &url, LIMIT) == Err(Fault::NoCertificates), "no certificates");
    for server in [server, other, elsewhere, expired] {
        fs::remove_file(&server.authority)?;
    }
    Ok(())
}

/// A process that runs for months outlives the certificates of its start.
#[test]
fn certificates_that_were_exchanged_are_read_again() -> Result<()> {
    let (server, other) =
        (encrypted("rotated.pem", "localhost")?, encrypted("rotated-other.pem", "localhost")?);
    let file = temporary("rotating.pem");
    fs::copy(&other.authority, &file)?;
    let config = ExportConfig { ca_file: Some(file.clone()), ..ExportConfig::default() };
    let mut client = Client::new(&config, Cut::default()).expect("a client");
    let request = request(&format!("https://localhost:{}", server.port), 10);
    let before = client.post(&request, LIMIT);
    ensure!(matches!(before, Err(Fault::Tls(_))), "{before:?}");
    fs::copy(&server.authority, &file)?;
    let after = client.post(&request, LIMIT);
    ensure!(after.as_ref().is_ok_and(|answer| answer.status == 200), "{after:?}");
    for path in [&file, &server.authority, &other.authority] {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// A proxy that notes the first line and whether a password came, and passes the rest on.
fn proxy(to: u16) -> Result<(u16, Arc<Mutex<Vec<String>>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let noted = Arc::clone(&noted);
            thread::spawn(move || through(stream, to, &noted));
        }
    });
    Ok((port, seen))
}

fn through(mut stream: TcpStream, to: u16, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    seen.lock().expect("seen").push(text.clone());
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    if text.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    } else {
        server.write_all(&head)?;
    }
    let (mut back, mut forth) = (server.try_clone()?, stream.try_clone()?);
    let copying = thread::spawn(move || std::io::copy(&mut forth, &mut back));
    let _ended = std::io::copy(&mut server, &mut stream);
    stream.shutdown(std::net::Shutdown::Both)?;
    let _ended = copying.join();
    Ok(())
}

#[test]
fn proxies_are_gone_through() -> Result<()> {
    // The host is one that no name service knows: only the proxy gets there.
    let intake = Intake::start()?;
    let (port, seen) = proxy(intake.port)?;
    let config = ExportConfig {
        http_proxy: Secret::new(format!("http://me:secret@127.0.0.1:{port}")),
        ..ExportConfig::default()
    };
    let answer = post(&config, "http://pyroscope.invalid/push", LIMIT);
    ensure!(answer.as_ref().is_ok_and(|answer| answer.status == 200), "{answer:?}");
    let text = seen.lock().expect("seen").join("\n");
    ensure!(text.starts_with("POST http://pyroscope.invalid/push HTTP/1.1\r\n"), "{text}");
    ensure!(text.contains("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{text}");

    let server = encrypted("proxied.pem", "pyroscope.invalid")?;
    let (port, seen) = proxy(server.port)?;
    let config = ExportConfig {
        https_proxy: Secret::new(format!("http://me:secret@127.0.0.1:{port}")),
        ca_file: Some(server.authority.clone()),
        ..ExportConfig::default()
    };
    let answer = post(&config, "https://pyroscope.invalid/push", LIMIT);
    ensure!(answer.as_ref().is_ok_and(|answer| answer.status == 200), "{answer:?}");
    let text = seen.lock().expect("seen").join("\n");
    ensure!(text.starts_with("CONNECT pyroscope.invalid:443 HTTP/1.1\r\n"), "{text}");
    let inside = &server.intake.received()[0];
    ensure!(inside.header("proxy-authorization").is_empty(), "the proxy's password went further");
    fs::remove_file(&server.authority)?;
    Ok(())
}

fn profile(seq: u64) -> Profile {
    let mut aggregate = Aggregate::new(profile::Limits::HOST);
    let period = Period { start_unix_ns: 1 + seq, duration_ns: 1, cpu_interval_ns: 1 };
    let mut profile = aggregate.take(period).profile;
    profile.report = Some(SelfReport { seq, ..SelfReport::default() });
    profile
}

type Said = Arc<Mutex<Vec<String>>>;

fn exporter(vars: &[(&str, &str)], folder: &Path) -> Result<(Exporter, Said)> {
    let folder = folder.display().to_string();
    let spool = ("CORPROF_SPOOL_DIR", folder.as_str());
    let vars = vars.iter().copied().chain([spool]);
    let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (config, warnings) = Config::from_vars(vars, "shop");
    ensure!(warnings.is_empty(), "{warnings:?}");
    let said: Said = Arc::default();
    let hears = Arc::clone(&said);
    let say: export::Say = Arc::new(move |_, text| hears.lock().expect("said").push(text.into()));
    let identity = Identity::new(&config, "CoreCLR 9", export::random_id());
    let exporter = Exporter::start(&config, identity, std::env::temp_dir(), say)?;
    Ok((exporter.context("no exporter")?, said))
}

fn waiting(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "parcel")).count()
}

#[test]
fn the_end_is_not_held_up_and_what_is_not_sent_is_kept() -> Result<()> {
    for manners in [Manners::Slow, Manners::Status(503, ""), Manners::Closes] {
        let folder = temporary("end");
        let intake = Intake::start()?;
        intake.be(manners.clone());
        let url = intake.url();
        let vars = [("CORPROF_PYROSCOPE_URL", url.as_str()), ("CORPROF_EXIT_FLUSH", "1s")];
        let (exporter, _) = exporter(&vars, &folder)?;
        for seq in 0..5 {
            exporter.offer(&profile(seq));
        }
        let begin = Instant::now();
        exporter.stop();
        ensure!(begin.elapsed() < PROMPT, "{manners:?}: {:?}", begin.elapsed());
        ensure!(waiting(&folder) == 5, "{manners:?}: {} wait", waiting(&folder));
        drop(exporter);
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

#[test]
fn what_waits_in_memory_is_sent_at_the_end() -> Result<()> {
    let folder = temporary("flush");
    let intake = Intake::start()?;
    let url = intake.url();
    let (exporter, _) = exporter(&[("CORPROF_PYROSCOPE_URL", &url)], &folder)?;
    for seq in 0..10 {
        exporter.offer(&profile(seq));
    }
    exporter.stop();
    ensure!(exporter.has_ended(), "the thread goes on");
    let ids: Vec<_> = intake.taken().iter().map(|r| Ok(pushed(r)?.id)).collect::<Result<_>>()?;
    ensure!(ids.len() == 10, "{ids:?}");
    ensure!(!folder.exists(), "a folder that nobody needed");
    intake.check()
}

/// All keys of all targets, in addresses and in variables of their own.
#[test]
fn no_secret_is_shown_anywhere() -> Result<()> {
    let folder = temporary("secret");
    let intake = Intake::start()?;
    let planted = format!("http://user:planted1@127.0.0.1:{}", intake.port);
    intake.be(Manners::Status(503, "X-Echo: planted1\r\n"));
    let vars = [
        ("CORPROF_EXPORT", "datadog,pyroscope,otlp"),
        ("CORPROF_DATADOG_URL", planted.as_str()),
        ("DD_API_KEY", "planted2"),
        ("CORPROF_DATADOG_AGENTLESS", "true"),
        ("PYROSCOPE_SERVER_ADDRESS", planted.as_str()),
        ("PYROSCOPE_BASIC_AUTH_USER", "planted3"),
        ("PYROSCOPE_BASIC_AUTH_PASSWORD", "planted4"),
        ("CORPROF_OTLP_ENDPOINT", planted.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=planted5"),
    ];
    let (exporter, said) = exporter(&vars, &folder)?;
    exporter.offer(&profile(0));
    intake.wait(|received| received.len() >= 3)?;
    exporter.stop();
    let status = exporter.status();
    let mut shown = format!("{status:?}{:?}", said.lock().expect("said"));
    status.iter().for_each(|status| shown.push_str(&status.line()));
    let received = intake.received();
    let mut found = 0;
    for request in &received {
        found += usize::from(request.header("dd-api-key") == "planted2");
        found += usize::from(request.header("api-key") == "planted5");
        found += usize::from(request.header("authorization").starts_with("Basic "));
        shown.push_str(&String::from_utf8_lossy(&request.body));
    }
    ensure!(found >= 4, "keys that did not arrive: {received:?}");
    ensure!(waiting(&folder) == 3, "{} wait", waiting(&folder));
    for entry in fs::read_dir(&folder)?.flatten() {
        shown.push_str(&entry.file_name().to_string_lossy());
        shown.push_str(&String::from_utf8_lossy(&fs::read(entry.path())?));
    }
    ensure!(!shown.contains("planted"), "{shown}");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// A server that says what it was sent, of each target, encoded and decoded, and a proxy's.
#[test]
fn what_a_server_sends_back_shows_no_secret() -> Result<()> {
    let folder = temporary("echo");
    let intake = Intake::start()?;
    intake.be(Manners::Echoes(400));
    let planted = format!("http://user:planted1@127.0.0.1:{}/?planted6", intake.port);
    let vars = [
        ("CORPROF_EXPORT", "datadog,pyroscope,otlp"),
        ("CORPROF_DATADOG_URL", planted.as_str()),
        ("PYROSCOPE_SERVER_ADDRESS", planted.as_str()),
        ("PYROSCOPE_BASIC_AUTH_USER", "planted3"),
        ("PYROSCOPE_BASIC_AUTH_PASSWORD", "planted4"),
        ("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", planted.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=planted5"),
    ];
    let (exporter, said) = exporter(&vars, &folder)?;
    exporter.offer(&profile(0));
    intake.wait(|received| received.len() >= 3)?;
    exporter.stop();
    let mut shown = said.lock().expect("said").join("\n");
    exporter.status().iter().for_each(|status| shown.push_str(&status.line()));
    ensure!(shown.matches("[secret]").count() >= 3, "they say nothing: {shown}");
    // The passwords as they are, and as `Authorization: Basic` has them.
    let encoded =
        ["user:planted1", "planted3:planted4"].map(|text| export::base64(text.as_bytes()));
    for secret in encoded.iter().map(String::as_str).chain(["planted"]) {
        ensure!(!shown.contains(secret), "{secret} in {shown}");
    }
    Ok(())
}
