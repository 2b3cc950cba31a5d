//! What is sent again counts once, and what only looks the same is kept.

use flate2::Crc;

use super::*;

/// Who did not hear that a profile was taken sends it again, and a person may upload files twice.
#[test]
fn what_is_sent_again_counts_once() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let file = |instance: &str, seq: u64| {
        let (mut profile, _) = recent(1, 20);
        let (instance, service) = (instance.to_owned(), "shop".to_owned());
        let service_version = "1.0".to_owned();
        let report = SelfReport { pid: 7, service, instance, seq, ..SelfReport::default() };
        profile.report = Some(SelfReport { service_version, ..report });
        profile
    };
    let first = file("0123456789abcdef0123456789abcdef", 3);
    let begun = first.period;
    let of = |mut profile: Profile| {
        profile.period = begun;
        profile
    };
    let second = of(file("0123456789abcdef0123456789abcdef", 4));
    let other = of(file("0123456789abcdef0123456789abcde0", 3));
    let own = |profile: &Profile| profile::pprof::write(profile, Vec::new()).unwrap();
    let series = write_for(Dialect::Pyroscope, &first, Vec::new()).unwrap();
    let (_, of_others) = recent(9, 20);
    let sent = |server: &Running| {
        let push = |what: &[u8]| {
            let answer = server.post("/v1/push?service=shop", what);
            assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
        };
        for body in [&own(&first), &own(&second), &own(&other), &series, &of_others] {
            push(body);
        }
        // Whatever else is told of it.
        assert_eq!(
            server.post("/v1/push?service=shop&version=2&instance=b", &own(&first)).status,
            200
        );
        // Of other services it is another.
        assert_eq!(server.post("/v1/push?service=copy", &own(&first)).status, 200);
        let counts = ["corprof_profiles_taken_total", "corprof_profiles_repeated_total"];
        counts.map(|name| metric(server, name))
    };
    // An instance is kept with what is known of each profile, so it has a bound as all texts.
    for instance in ["x".repeat(1025), "a\nb".to_owned()] {
        let answer = server.post("/v1/push?service=shop", &own(&file(&instance, 3)));
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    assert_eq!(sent(&server), [6, 1]);
    assert_eq!(sent(&server), [6, 8]);
    drop(server);
    // Also after a start.
    let server = serve(&dir, &[]);
    assert_eq!(sent(&server), [0, 7]);
    let header = header(&server);
    let sources = header["sources"].as_array().unwrap();
    let versions: Vec<&str> = sources.iter().filter_map(|s| s["version"].as_str()).collect();
    // That of the file, where it has one.
    assert_eq!(versions, ["1.0", "1.0", "1.0", "1.0", "", "1.0"]);
    let cpu = first.total().cpu_ns;
    assert_eq!(whole(&server, "service=copy"), cpu);
}

/// A person who uploads files hears which of them nobody needed.
#[test]
fn upload_says_what_was_there() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    for (name, seed) in [("one.pb.gz", 1), ("two.pb.gz", 2), ("three.pb.gz", 3)] {
        dir.write(name, &recent(seed, 20).1);
    }
    let to = format!("--to=corprof=http://{}", server.host);
    let upload = |files: &[&str], says: &str| {
        let mut command = dir.corprof(&[&["upload", to.as_str()], files].concat());
        let output = command.env("CORPROF_SERVICE", "shop").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(says), "{text}");
    };
    upload(&["one.pb.gz"], "1 sent, 0 not taken");
    upload(&["one.pb.gz", "two.pb.gz"], "1 sent, 1 was there already, 0 not taken");
    upload(&["one.pb.gz", "two.pb.gz", "three.pb.gz"], "1 sent, 2 were there already, 0 not taken");
}

fn both_counts(server: &Running) -> [u64; 2] {
    let names = ["corprof_profiles_taken_total", "corprof_profiles_repeated_total"];
    names.map(|name| metric(server, name))
}

#[test]
fn the_same_in_one_push_counts_once() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (profile, bytes) = recent(1, 20);
    let labels = [("service_name".to_owned(), "shop".to_owned())];
    let one = push_request(&labels, &bytes, "1");
    let (_, other) = recent(2, 20);
    let other = push_request(&labels, &other, "2");
    let push = [one.as_slice(), &one, &other, &one].concat();
    assert_eq!(server.post("/push.v1.PusherService/Push", &push).status, 200);
    assert_eq!(both_counts(&server), [2, 2]);
    let answer = server.post("/push.v1.PusherService/Push", &push);
    assert!(answer.head.ends_with("\r\nCorprof-Repeated: 4"), "{}", answer.head);
    let cpu = profile.total().cpu_ns + recent(2, 20).0.total().cpu_ns;
    assert_eq!(whole(&server, "service=shop"), cpu);
}

/// One service would have it twice, whatever else is told of it. Of other processes and services
/// it is another.
#[test]
fn other_labels_make_no_other_profile() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (mut profile, bytes) = recent(1, 20);
    let push = |words: &str, bytes: &[u8]| {
        assert_eq!(server.post(&format!("/v1/push?{words}"), bytes).status, 200);
        both_counts(&server)
    };
    assert_eq!(push("service=shop&version=1&label.zone=a", &bytes), [1, 0]);
    assert_eq!(push("service=shop&version=1&label.zone=b", &bytes), [1, 1]);
    assert_eq!(push("service=shop&version=2", &bytes), [1, 2]);
    assert_eq!(push("service=shop&instance=b", &bytes), [2, 2]);
    assert_eq!(push("service=copy", &bytes), [3, 2]);
    assert_eq!(push("service=copy", &bytes), [3, 3]);
    // What doesn't say when it was taken may be the same of two that labels tell apart.
    profile.period.start_unix_ns = 0;
    let bytes = profile::pprof::write(&profile, Vec::new()).unwrap();
    assert_eq!(push("service=old&label.zone=a", &bytes), [4, 3]);
    assert_eq!(push("service=old&label.zone=b", &bytes), [5, 3]);
    assert_eq!(push("service=old&label.zone=b", &bytes), [5, 4]);
}

/// Two of the same length and CRC-32, which anybody can make.
#[test]
fn the_same_sum_makes_no_same_profile() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let (_, packed) = recent(1, 20);
    let mut plain = unpacked(&packed);
    plain.extend(unknown_field(8));
    let first = [plain.as_slice(), b"one ", b"1234"].concat();
    let mut second = [plain.as_slice(), b"two "].concat();
    second.extend(filling(crc(&second), crc(&first)));
    assert!(first.len() == second.len() && crc(&first) == crc(&second) && first != second);
    for bytes in [&first, &second] {
        assert_eq!(server.post("/v1/push?service=shop", bytes).status, 200);
    }
    assert_eq!(both_counts(&server), [2, 0]);
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The four bytes that lead from one CRC-32 to another.
fn filling(from: u32, to: u32) -> [u8; 4] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    // Each step of the sum backwards: a bit that was shifted out has left the polynomial.
    let back = |sum: u32| match sum >> 31 {
        0 => sum << 1,
        _ => (sum ^ POLYNOMIAL) << 1 | 1,
    };
    (!from ^ (0..32).fold(!to, |sum, _| back(sum))).to_le_bytes()
}
