//! What the server has no room for is told to its sender, and keeps nobody else out.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;

use super::*;

/// The command of a server behind a script, as `exec "$@"` has it.
fn behind(dir: &Dir, script: &str, wrapper: &[&str]) -> Command {
    let inner = dir.corprof(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    let mut command = Command::new(wrapper.first().unwrap_or(&"sh"));
    if !wrapper.is_empty() {
        command.args(&wrapper[1..]).arg("sh");
    }
    command.args(["-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(&dir.0);
    command
}

/// Pushes profiles of one instance after the other until one is refused: how many were taken.
fn fill(server: &Running) -> usize {
    let (_, bytes) = recent(1, 100);
    for number in 0..500 {
        let answer = server.post(&format!("/v1/push?service=shop&instance={number}"), &bytes);
        if answer.status != 200 {
            assert_eq!(answer.status, 507, "{}", answer.text());
            let reasons = ["File too large", "No space left"];
            assert!(reasons.iter().any(|why| answer.text().contains(why)), "{}", answer.text());
            assert!(answer.head.contains("Retry-After"), "{}", answer.head);
            return number;
        }
    }
    panic!("there is no limit");
}

/// Where no more can be written the sender is told why, and the store holds what it took.
#[test]
fn a_limit_of_a_files_size_is_told_to_the_sender() {
    let dir = Dir::new();
    let server = Running::start(behind(&dir, "ulimit -f 200; exec \"$@\"", &[]));
    let taken = fill(&server);
    assert!(taken > 0);
    assert_eq!(fill(&server), 0, "another time it is the same");
    let check = |server: &Running, taken: usize| {
        assert_eq!(metric(server, "corprof_store_profiles"), taken as u64);
        assert_eq!(metric(server, "corprof_store_damaged"), 0);
        assert_eq!(header(server)["sources"].as_array().unwrap().len(), taken);
    };
    check(&server, taken);
    drop(server);
    let server = serve(&dir, &[]);
    check(&server, taken);
    let (_, bytes) = recent(2, 100);
    assert_eq!(server.post("/v1/push?service=shop&instance=again", &bytes).status, 200);
    check(&server, taken + 1);
}

#[test]
fn a_full_disk_is_told_to_the_sender_and_may_have_room_again() {
    let unshare = ["unshare", "--mount"];
    let can_mount = Command::new("unshare").args(["--mount", "true"]).output();
    if !can_mount.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: a disk of its own needs root");
        return;
    }
    let dir = Dir::new();
    std::fs::create_dir(dir.path("data")).unwrap();
    let script = "mount -t tmpfs -o size=1m none data && head -c 700000 /dev/zero > data/other && \
                  exec \"$@\"";
    let server = Running::start(behind(&dir, script, &unshare));
    let taken = fill(&server);
    assert_eq!(metric(&server, "corprof_store_profiles"), taken as u64);
    let inside = format!("/proc/{}/root{}/data/other", server.child.id(), dir.0.display());
    std::fs::remove_file(inside).unwrap();
    let (_, bytes) = recent(1, 100);
    assert_eq!(server.post("/v1/push?service=shop&instance=again", &bytes).status, 200);
    assert_eq!(metric(&server, "corprof_store_profiles"), taken as u64 + 1);
}

/// What is small on the wire may be large in memory, also in many pieces.
#[test]
fn what_inflates_to_too_much_is_refused() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (_, bytes) = recent(1, 5);
    let mut plain = unpacked(&bytes);
    plain.extend(unknown_field(8 << 20));
    plain.resize(plain.len() + (8 << 20), 0);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&plain).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(server.post("/v1/push?service=shop", &packed).status, 200);
    let labels = [("service_name".to_owned(), "shop".to_owned())];
    let one = push_request(&labels, &packed, "1");
    let push = |times: usize| server.post("/push.v1.PusherService/Push", &one.repeat(times));
    assert_eq!(push(7).status, 200);
    let refused = push(8);
    assert!(refused.status == 413 && refused.text().contains("64 MiB"), "{}", refused.text());
    // All of them are the first one.
    assert_eq!(metric(&server, "corprof_store_profiles"), 1);
    assert_eq!(metric(&server, "corprof_profiles_repeated_total"), 7);
}

/// As many as there are places, each of which has sent a part of a request: a stranger needs no
/// token for that.
#[test]
fn slow_clients_keep_nobody_out() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let slow = |_| {
        let mut stream = TcpStream::connect(&server.host).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..256).map(slow).collect();
    assert_eq!(server.get("/health", "").text(), "ok\n");
    // They go soon, also those that are not in the way; the last of them as the others do.
    let mut last = slow.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(last.read(&mut [0; 1]).unwrap(), 0, "it is waited for");
}
