//! Sockets are found by the process's own number and start, and a runtime that answers late, wrong
//! or not at all is told so. The runtime is a thread here, and `/proc` a folder.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use diagnostics::{
    AttachError, Command, Frame, Guid, Hresult, Process, RequestError, Socket, Unreachable,
};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// Short: what does not answer is not waited for longer.
const SHORT: Duration = Duration::from_millis(50);
const OWN_PID: u32 = 12;
const START: u64 = 777;

/// The number outside: who listens here is this process.
fn pid() -> u32 {
    std::process::id()
}

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A process in a container: its folder in `/proc`.
struct Fake(PathBuf);

impl Fake {
    fn new(environment: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corprof-diagnostics-{}-{number}", std::process::id());
        let fake = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(fake.0.join("root/tmp")).unwrap();
        fs::create_dir_all(fake.0.join("task/1")).unwrap();
        let (pid, zeros) = (pid(), "0 ".repeat(18));
        fake.write("stat", &format!("{pid} (a) (b c) S {zeros}{START} 0 0"));
        fake.write("status", &format!("NSpid:\t{pid}\t{OWN_PID}\nUid:\t0\t0\t0\t0\n"));
        fake.write("environ", environment);
        fake.write("cmdline", "dotnet\0Shop.dll\0");
        fake.write("maps", "7f00-7f01 r-xp 00000000 fe:00 1   /app/libcoreclr.so\n");
        fake
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn process(&self) -> Process {
        Process::in_folder(pid(), self.0.clone())
    }

    fn socket_path(&self, folder: &str, pid: u32, start: u64) -> PathBuf {
        let folder = self.0.join("root").join(folder);
        fs::create_dir_all(&folder).unwrap();
        folder.join(format!("dotnet-diagnostic-{pid}-{start}-socket"))
    }

    /// Listens as the process's runtime would.
    fn listen(&self) -> UnixListener {
        UnixListener::bind(self.socket_path("tmp", OWN_PID, START)).unwrap()
    }

    fn socket(&self) -> Socket {
        Socket::of_process(&self.process()).unwrap().with_timeout(LONG)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read_request(stream: &mut UnixStream) -> Frame {
    let mut bytes = vec![0; 20];
    stream.read_exact(&mut bytes).unwrap();
    let size = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    bytes.resize(size, 0);
    stream.read_exact(&mut bytes[20..]).unwrap();
    Frame::decode(&bytes).unwrap()
}

fn reply(command: Command, payload: &[u8]) -> Vec<u8> {
    Frame { command, payload: payload.to_vec() }.encode().unwrap()
}

fn error(code: Hresult) -> Vec<u8> {
    reply(Command::Error, &code.0.to_le_bytes())
}

/// Answers requests with these bytes, one connection each; gives the requests.
fn answer(listener: UnixListener, answers: Vec<Vec<u8>>) -> JoinHandle<Vec<Frame>> {
    thread::spawn(move || {
        let one = |answer: Vec<u8>| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_request(&mut stream);
            stream.write_all(&answer).unwrap();
            request
        };
        answers.into_iter().map(one).collect()
    })
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    bytes.extend(u32::try_from(units.len()).unwrap().to_le_bytes());
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
}

fn info(texts: &[&str]) -> Vec<u8> {
    let mut bytes = u64::from(OWN_PID).to_le_bytes().to_vec();
    bytes.extend([7; 16]);
    texts.iter().for_each(|part| text(&mut bytes, part));
    bytes
}

#[test]
fn the_socket_is_the_one_of_this_start_and_of_the_number_inside() {
    let fake = Fake::new("A=1\0");
    for (pid, start) in [(OWN_PID, START - 1), (OWN_PID, START + 1), (pid(), START)] {
        fs::write(fake.socket_path("tmp", pid, start), "").unwrap();
    }
    let found = Socket::of_process(&fake.process());
    assert!(matches!(found, Err(Unreachable::NoSocket(_))), "{found:?}");
    let path = fake.socket_path("tmp", OWN_PID, START);
    fs::write(&path, "").unwrap();
    assert_eq!(fake.socket().path(), path);
}

#[test]
fn the_folder_is_that_of_the_process() {
    let fake = Fake::new("A=1\0TMPDIR=/var/odd\0");
    fs::write(fake.socket_path("tmp", OWN_PID, START), "").unwrap();
    let Err(error @ Unreachable::NoSocket(_)) = Socket::of_process(&fake.process()) else {
        panic!("found in /tmp")
    };
    assert!(error.to_string().contains("/var/odd"), "{error}");
    let path = fake.socket_path("var/odd", OWN_PID, START);
    fs::write(&path, "").unwrap();
    assert_eq!(fake.socket().path(), path);
}

#[test]
fn why_there_is_no_socket_is_said() {
    let why = |fake: &Fake| Socket::of_process(&fake.process()).unwrap_err();
    let off = Fake::new("DOTNET_EnableDiagnostics_IPC=0\0");
    let error = why(&off);
    assert!(matches!(&error, Unreachable::SwitchedOff(by) if by.ends_with("_IPC=0")), "{error:?}");
    let native = Fake::new("");
    native.write("maps", "7f00-7f01 r-xp 00000000 fe:00 1   /lib/libc.so.6\n");
    native.write("task/1/comm", "bash\n");
    assert!(matches!(why(&native), Unreachable::NotDotnet));
    native.write("task/1/comm", ".NET Finalizer\n");
    assert!(matches!(why(&native), Unreachable::NoSocket(_)));
    let dead = Fake::new("");
    dead.write("stat", &format!("{} (a) Z {}{START}", pid(), "0 ".repeat(18)));
    assert!(matches!(why(&dead), Unreachable::NoProcess));
    let gone = Process::in_folder(pid(), "/nowhere".into());
    assert!(matches!(Socket::of_process(&gone), Err(Unreachable::NoProcess)));
}

#[test]
fn older_runtimes_are_asked_in_their_way() {
    let fake = Fake::new("");
    let unknown = || error(Hresult::UNKNOWN_COMMAND);
    let second = info(&["/bin/x y", "Linux", "x64", "Shop", "7.0.1"]);
    let runtime = answer(fake.listen(), vec![unknown(), reply(Command::Ok, &second)]);
    let told = fake.socket().process_info().unwrap();
    assert_eq!(told.runtime_version.as_deref(), Some("7.0.1"));
    assert_eq!((told.pid, told.runtime_id), (u64::from(OWN_PID), None));
    let asked: Vec<_> = runtime.join().unwrap().into_iter().map(|frame| frame.command).collect();
    assert_eq!(asked, [Command::ProcessInfo3, Command::ProcessInfo2]);

    let fake = Fake::new("");
    let runtime = answer(fake.listen(), vec![unknown(), unknown(), unknown()]);
    let told = fake.socket().process_info();
    let refused = Hresult::UNKNOWN_COMMAND;
    assert!(matches!(told, Err(RequestError::Refused(code)) if code == refused), "{told:?}");
    runtime.join().unwrap();
}

#[test]
fn the_environment_comes_after_the_answer() {
    let fake = Fake::new("");
    let mut block = 2_u32.to_le_bytes().to_vec();
    text(&mut block, "A=1");
    text(&mut block, "TMPDIR=/x=y");
    let mut payload = u32::try_from(block.len()).unwrap().to_le_bytes().to_vec();
    payload.extend([0, 0]);
    let bytes = [reply(Command::Ok, &payload), block].concat();
    let runtime = answer(fake.listen(), vec![bytes]);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(fake.socket().environment().unwrap(), [pair("A", "1"), pair("TMPDIR", "/x=y")]);
    runtime.join().unwrap();

    // A length that nobody could have is not believed.
    let fake = Fake::new("");
    let runtime = answer(fake.listen(), vec![reply(Command::Ok, &[255; 6])]);
    assert!(matches!(fake.socket().environment(), Err(RequestError::Malformed(_))));
    runtime.join().unwrap();
}

#[test]
fn who_does_not_answer_is_not_waited_for() {
    let fake = Fake::new("");
    let listener = fake.listen();
    // Accepted by the kernel, and answered by nobody: a process that is stopped.
    let begin = Instant::now();
    let told = fake.socket().with_timeout(SHORT).process_info();
    assert!(matches!(told, Err(RequestError::TimedOut(time)) if time == SHORT), "{told:?}");
    // More connections than the kernel keeps for it: not even that is waited for.
    let mut kept = Vec::new();
    let full = loop {
        let path = fake.socket_path("tmp", OWN_PID, START);
        let address = nix::sys::socket::UnixAddr::new(&path).unwrap();
        let stream = connect_at_once(&address);
        match stream {
            Ok(stream) => kept.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(full, nix::errno::Errno::EAGAIN);
    let told = fake.socket().with_timeout(SHORT).process_info();
    assert!(matches!(told, Err(RequestError::TimedOut(_))), "{told:?}");
    assert!(begin.elapsed() < LONG);
    drop(listener);
}

fn connect_at_once(address: &nix::sys::socket::UnixAddr) -> nix::Result<std::os::fd::OwnedFd> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, connect, socket};
    use std::os::fd::AsRawFd as _;
    let flags = SockFlag::SOCK_NONBLOCK;
    let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(stream.as_raw_fd(), address)?;
    Ok(stream)
}

#[test]
fn bad_answers_are_told_apart() {
    let ask = |bytes: Vec<u8>| {
        let fake = Fake::new("");
        let runtime = answer(fake.listen(), vec![bytes]);
        let told = fake.socket().process_info();
        runtime.join().unwrap();
        told.unwrap_err()
    };
    assert!(matches!(ask(Vec::new()), RequestError::Closed));
    assert!(matches!(ask(reply(Command::Ok, &[1; 40])[..30].to_vec()), RequestError::Closed));
    assert!(matches!(ask(vec![b'x'; 64]), RequestError::Malformed(_)));
    assert!(matches!(ask(reply(Command::Ok, &[1; 9])), RequestError::Malformed(_)));
    assert!(matches!(ask(reply(Command::Error, &[])), RequestError::Malformed(_)));
    // A socket that nobody listens to: its process was killed.
    let fake = Fake::new("");
    drop(fake.listen());
    assert!(matches!(fake.socket().process_info(), Err(RequestError::Io(_))));
}

/// A library that fits this process: this test's own program.
fn put_library(fake: &Fake) -> &'static Path {
    fs::create_dir_all(fake.0.join("root/opt")).unwrap();
    let own = fs::canonicalize("/proc/self/exe").unwrap();
    fs::copy(&own, fake.0.join("root/opt/libcorprof.so")).unwrap();
    Path::new("/opt/libcorprof.so")
}

const CLASS: &str = "{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}";

fn attach(fake: &Fake, library: &Path) -> Result<(), AttachError> {
    fake.socket().attach_profiler(LONG, Guid::parse(CLASS).unwrap(), library, b"data")
}

#[test]
fn a_runtime_that_starts_is_asked_again() {
    let fake = Fake::new("");
    let library = put_library(&fake);
    let answers = vec![
        error(Hresult::NOT_YET_AVAILABLE),
        error(Hresult::UNINITIALIZED),
        reply(Command::Ok, &Hresult::OK.0.to_le_bytes()),
    ];
    let runtime = answer(fake.listen(), answers);
    attach(&fake, library).unwrap();
    let requests = runtime.join().unwrap();
    let last = &requests[2];
    assert_eq!(last.command, Command::AttachProfiler);
    let (timeout, rest) = last.payload.split_at(4);
    assert!(u32::from_le_bytes(timeout.try_into().unwrap()) > 1_000);
    assert_eq!(rest[..16], Guid::parse(CLASS).unwrap().to_bytes());
    let mut expected = Vec::new();
    text(&mut expected, "/opt/libcorprof.so");
    expected.extend([4, 0, 0, 0]);
    expected.extend(b"data");
    assert_eq!(rest[16..], expected);

    // But not without end.
    let fake = Fake::new("");
    put_library(&fake);
    let runtime = answer(fake.listen(), vec![error(Hresult::NOT_YET_AVAILABLE)]);
    let class = Guid::parse(CLASS).unwrap();
    let told = fake.socket().attach_profiler(SHORT, class, library, &[]);
    let is_over = |error: &AttachError| {
        matches!(error, AttachError::Starting | AttachError::Request(RequestError::TimedOut(_)))
    };
    assert!(told.as_ref().is_err_and(is_over), "{told:?}");
    runtime.join().unwrap();
}

#[test]
fn what_the_runtime_refuses_is_said() {
    let ask = |code| {
        let fake = Fake::new("");
        let library = put_library(&fake);
        let runtime = answer(fake.listen(), vec![error(code)]);
        let told = attach(&fake, library).unwrap_err();
        runtime.join().unwrap();
        told
    };
    let active = ask(Hresult::ALREADY_ACTIVE);
    assert!(matches!(active, AttachError::AlreadyAttached(None)), "{active:?}");
    let refused = ask(Hresult::LIBRARY_NOT_LOADED);
    assert!(refused.to_string().contains("could not be loaded (0x8007007E)"), "{refused}");
    assert!(ask(Hresult(0x8000_ffff)).to_string().contains("error 0x8000FFFF"));
}

#[test]
fn what_can_be_seen_beforehand_is_not_tried() {
    let fake = Fake::new("");
    let _listener = fake.listen();
    let library = put_library(&fake);
    let told = attach(&fake, Path::new("/elsewhere/libcorprof.so")).unwrap_err();
    assert!(matches!(told, AttachError::NotVisible(_)), "{told:?}");
    let told = attach(&fake, Path::new("libcorprof.so")).unwrap_err();
    assert!(matches!(told, AttachError::BadPath(_)), "{told:?}");
    fake.write("root/opt/text.so", "not a library");
    let told = attach(&fake, Path::new("/opt/text.so")).unwrap_err();
    assert!(matches!(told, AttachError::NotALibrary(..)), "{told:?}");

    fake.write("maps", "7f00-7f01 r-xp 0 fe:00 1  /lib/ld-musl-x86_64.so.1\n");
    let told = attach(&fake, library).unwrap_err();
    assert!(told.reason().contains("musl"), "{told}");
    fake.write("maps", "");

    fake.write("environ", "DOTNET_EnableDiagnostics_Profiler=0\0");
    let told = attach(&fake, library).unwrap_err();
    assert!(matches!(told, AttachError::SwitchedOff(_)), "{told:?}");
}

#[test]
fn a_library_that_the_processs_user_may_not_read_is_not_tried() {
    use std::os::unix::fs::PermissionsExt as _;
    let fake = Fake::new("");
    let _listener = fake.listen();
    let library = put_library(&fake);
    fake.write("status", &format!("NSpid:\t{OWN_PID}\nUid:\t9\t4000000\t9\t9\nGid:\t9\t9\t9\t9\n"));
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(fake.0.join("root/opt"), mode).unwrap();
    let told = attach(&fake, library).unwrap_err();
    let is_folder = matches!(&told, AttachError::NotReadable(part, 4_000_000) if part == "/opt");
    assert!(is_folder, "{told:?}");
}

#[test]
fn another_processor_is_seen() {
    let fake = Fake::new("");
    let _listener = fake.listen();
    let library = put_library(&fake);
    fs::copy("/proc/self/exe", fake.0.join("exe")).unwrap();
    let path = fake.0.join("root/opt/libcorprof.so");
    let mut bytes = fs::read(&path).unwrap();
    // RISC-V.
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let told = attach(&fake, library).unwrap_err();
    assert!(matches!(told, AttachError::OtherMachine(243, _)), "{told:?}");
}

/// Who may write to a process's temporary folder may put a link to another's socket there, and a
/// runtime does what it is told: load a library.
#[test]
fn another_process_is_not_spoken_to() {
    let fake = Fake::new("");
    let listener = fake.listen();
    let other = Process::in_folder(pid() + 1, fake.0.clone());
    let socket = Socket::of_process(&other).unwrap().with_timeout(LONG);
    let error = socket.process_info().unwrap_err();
    let expected = format!("process {} listens at it, and not process {}", pid(), pid() + 1);
    assert!(error.to_string().contains(&expected), "{error}");
    let (mut connection, _) = listener.accept().unwrap();
    let mut said = Vec::new();
    connection.read_to_end(&mut said).unwrap();
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn paths_longer_than_an_address_are_connected_to() {
    let fake = Fake::new(&format!("TMPDIR=/{}\0", "long/".repeat(30)));
    let path = fake.socket_path(&"long/".repeat(30), OWN_PID, START);
    let name = path.file_name().unwrap().to_owned();
    // Bound where the path is short, and moved.
    let short = fake.0.join(&name);
    let listener = UnixListener::bind(&short).unwrap();
    fs::rename(&short, &path).unwrap();
    assert!(path.as_os_str().len() > 108);
    let third =
        [1_u32.to_le_bytes().to_vec(), info(&["x", "Linux", "x64", "a", "9", "r"])].concat();
    let runtime = answer(listener, vec![reply(Command::Ok, &third)]);
    assert_eq!(fake.socket().process_info().unwrap().runtime_id.as_deref(), Some("r"));
    runtime.join().unwrap();
}
