//! The spool on real folders: several owners, a full disk, damage.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use config::Target;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("corprof-spool-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _left = fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn open(&self, owner: &str, limit_bytes: u64) -> Spool {
        Spool::open(&self.0, Trust::OwnOnly, owner, limit_bytes).expect("a spool")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn parcel(n: u64) -> Parcel {
    Parcel {
        target: Target::Otlp,
        start_unix_ns: n,
        content_type: "x".into(),
        is_gzipped: true,
        body: vec![u8::try_from(n % 251).expect("a byte"); 1000].into(),
    }
}

fn same(lane: &str) -> Option<String> {
    Some(lane.to_owned())
}

fn drain(spool: &mut Spool, lane: &str) -> Vec<u64> {
    let mut times = Vec::new();
    while let Some(oldest) = spool.oldest(lane, |_| true).cloned() {
        times.push(spool.read(&oldest).expect("read").expect("whole").start_unix_ns);
        spool.remove(&oldest);
    }
    times
}

#[test]
fn the_oldest_comes_first_whatever_the_clock_did() {
    let folder = Folder::new("order");
    let mut spool = folder.open("a1", 1 << 20);
    for n in [30, 10, 20, 10] {
        assert_eq!(spool.put("one", &parcel(n), Survives::Machine).expect("kept"), []);
    }
    spool.put("two", &parcel(5), Survives::Machine).expect("kept");
    assert_eq!(spool.size("two").0, 1);
    assert_eq!(drain(&mut spool, "one"), [10, 10, 20, 30]);
    assert_eq!(drain(&mut spool, "two"), [5]);
    drop(spool);
    assert_eq!(folder.names(), [""; 0], "nothing is left behind");
}

#[test]
fn files_are_the_users_own() {
    let folder = Folder::new("mode");
    let mut spool = folder.open("a1", 1 << 20);
    spool.put("one", &parcel(1), Survives::Machine).expect("kept");
    for name in folder.names() {
        let mode = fs::metadata(folder.0.join(&name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&folder.0).expect("a folder").permissions().mode() & 0o777, 0o700);
    drop(spool);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("opened to all");
    assert!(Spool::open(&folder.0, Trust::OwnOnly, "b2", 1).is_err());
    assert!(Spool::open(&folder.0, Trust::Named, "b2", 1).is_ok());
}

#[test]
fn what_is_over_the_limit_goes_from_the_old_end_and_is_told() {
    let folder = Folder::new("limit");
    let size = parcel(1).to_bytes().len() as u64;
    let mut spool = folder.open("a1", size * 3 + size / 2);
    let mut lost = Vec::new();
    for n in 1..=10 {
        lost.extend(
            spool
                .put("one", &parcel(n), Survives::Machine)
                .expect("kept")
                .into_iter()
                .map(|w| w.time_ns),
        );
    }
    assert_eq!(lost, [1, 2, 3, 4, 5, 6, 7]);
    // Another process fills it: what is its own is not ours to remove.
    let mut other = folder.open("b2", u64::MAX);
    for n in 11..=13 {
        other.put("one", &parcel(n), Survives::Machine).expect("kept");
    }
    let kept = spool.put("one", &parcel(14), Survives::Machine);
    assert_eq!(kept.map_err(|error| error.kind()).err(), Some(io::ErrorKind::QuotaExceeded));
    assert_eq!(drain(&mut other, "one"), [11, 12, 13]);
    let huge = Parcel { body: vec![0; 10_000].into(), ..parcel(1) };
    assert!(spool.put("one", &huge, Survives::Machine).is_err());
}

#[test]
fn what_the_dead_left_is_taken_over_and_only_by_one() {
    let folder = Folder::new("adopt");
    let mut dead = folder.open("dead", 1 << 20);
    for n in 1..=3 {
        dead.put("one", &parcel(n), Survives::Machine).expect("kept");
    }
    dead.put("elsewhere", &parcel(4), Survives::Machine).expect("kept");
    fs::write(folder.0.join(".dead_one_5_9.parcel.tmp"), "half").expect("half a file");
    let mut living = folder.open("living", 1 << 20);
    living.put("one", &parcel(9), Survives::Machine).expect("kept");
    let mut next = folder.open("next", 1 << 20);
    assert_eq!(next.adopt(same).expect("a folder"), 0, "both are alive");
    drop(dead);
    let only_one = |lane: &str| (lane == "one").then(|| lane.to_owned());
    assert_eq!(next.adopt(only_one).expect("a folder"), 3);
    assert_eq!(next.adopt(only_one).expect("a folder"), 0);
    assert!(!folder.names().iter().any(|name| name.ends_with(TEMPORARY)), "half a file is none");
    assert_eq!(drain(&mut next, "one"), [1, 2, 3]);
    assert_eq!(drain(&mut living, "one"), [9]);
    // What was for somebody else is still there, for whoever asks for all.
    let mut last = folder.open("last", 1 << 20);
    assert_eq!(last.adopt(same).expect("a folder"), 1);
    assert_eq!(drain(&mut last, "elsewhere"), [4]);
}

#[test]
fn what_is_for_nobody_makes_room() {
    let folder = Folder::new("room");
    let size = parcel(1).to_bytes().len() as u64;
    let mut dead = folder.open("dead", u64::MAX);
    for n in 1..=3 {
        dead.put("elsewhere", &parcel(n), Survives::Machine).expect("kept");
    }
    drop(dead);
    let mut spool = folder.open("a1", size * 3 + size / 2);
    for n in 4..=6 {
        let lost = spool.put("one", &parcel(n), Survives::Machine).expect("kept");
        assert_eq!(lost.iter().map(|w| w.time_ns).collect::<Vec<_>>(), [n - 3]);
    }
    assert_eq!(drain(&mut spool, "one"), [4, 5, 6]);
}

#[test]
fn a_damaged_file_is_no_parcel() {
    let folder = Folder::new("damaged");
    let mut spool = folder.open("a1", 1 << 20);
    spool.put("one", &parcel(1), Survives::Machine).expect("kept");
    let oldest = spool.oldest("one", |_| true).cloned().expect("one");
    let path = folder.0.join(&oldest.name);
    let bytes = fs::read(&path).expect("bytes");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    assert_eq!(spool.read(&oldest).expect("read"), None);
    fs::remove_file(&path).expect("removed");
    assert_eq!(spool.read(&oldest).expect("read"), None);
}

#[test]
fn a_full_disk_loses_nothing_that_is_there() {
    let folder = Folder::new("full");
    fs::create_dir_all(&folder.0).expect("a folder");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs"])
        .arg(&folder.0)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!(
            "SKIPPED a_full_disk_loses_nothing_that_is_there: needs root, to mount a small disk"
        );
        return;
    }
    let mut spool = folder.open("a1", 1 << 30);
    let large = |n| Parcel { body: vec![7; 20_000].into(), ..parcel(n) };
    let kept: Vec<bool> =
        (1..=5).map(|n| spool.put("one", &large(n), Survives::Machine).is_ok()).collect();
    let names = folder.names();
    let times = drain(&mut spool, "one");
    let again = spool.put("one", &large(6), Survives::Machine).is_ok();
    drop(spool);
    let unmounted = Command::new("umount").arg(&folder.0).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert!(kept[0] && !kept[4], "{kept:?}");
    assert!(!names.iter().any(|name| name.ends_with(TEMPORARY)), "{names:?}");
    assert_eq!(times.len(), kept.iter().filter(|kept| **kept).count());
    assert!(again, "room again");
}

/// Small files need more of a disk than they are long, and each costs memory.
#[test]
fn too_many_files_cost_the_oldest_however_small_they_are() {
    let folder = Folder::new("many");
    let mut spool = folder.open("a1", u64::MAX);
    spool.put("one", &parcel(1), Survives::Process).expect("kept");
    for n in spool.names().expect("names").len()..FILES_MAX {
        fs::write(folder.0.join(format!("others-{n}")), []).expect("a file");
    }
    let lost = spool.put("one", &parcel(2), Survives::Process).expect("kept");
    assert_eq!(lost.iter().map(|w| w.time_ns).collect::<Vec<_>>(), [1]);
    assert_eq!(drain(&mut spool, "one"), [2]);
    fs::write(folder.0.join("one-more"), []).expect("a file");
    let kept = spool.put("one", &parcel(3), Survives::Process);
    assert_eq!(kept.map_err(|error| error.kind()).err(), Some(io::ErrorKind::QuotaExceeded));
}

/// What somebody may have put into a folder that several users write to.
#[test]
fn links_and_pipes_are_no_parcels_and_are_not_waited_for() {
    let folder = Folder::new("planted");
    let mut spool = folder.open("a1", 1 << 20);
    spool.put("one", &parcel(1), Survives::Machine).expect("kept");
    let secret = folder.0.join("secret");
    fs::write(&secret, parcel(3).to_bytes()).expect("a file");
    let link = folder.0.join("dead_one_00000000000000000002_1.parcel");
    std::os::unix::fs::symlink(&secret, link).expect("a link");
    for name in ["dead_one_00000000000000000003_1.parcel", "other.lock"] {
        let made = Command::new("mkfifo").arg(folder.0.join(name)).status();
        assert!(made.is_ok_and(|status| status.success()));
    }
    let huge = File::create(folder.0.join("dead_one_00000000000000000004_1.parcel"));
    huge.and_then(|file| file.set_len(FILE_BYTES_MAX + 1)).expect("a huge file");
    assert_eq!(spool.adopt(same).expect("a folder"), 3);
    let mut whole = Vec::new();
    while let Some(oldest) = spool.oldest("one", |_| true).cloned() {
        whole.extend(spool.read(&oldest).expect("read").map(|parcel| parcel.start_unix_ns));
        spool.remove(&oldest);
    }
    assert_eq!(whole, [1]);
    assert!(secret.exists(), "what a link leads to stays");
}

const KILLED: &str = "CORPROF_TEST_KILLED";

/// No test: what the next one starts and kills. It does nothing but put large parcels.
#[test]
fn puts_until_it_is_killed() {
    let Some(folder) = std::env::var_os(KILLED) else { return };
    let mut spool = Spool::open(Path::new(&folder), Trust::OwnOnly, "dead", 1 << 40).expect("open");
    for n in 1.. {
        let large = Parcel { body: vec![7; 4 << 20].into(), ..parcel(n) };
        spool.put("one", &large, Survives::Machine).expect("kept");
    }
}

/// SIGKILL in the middle of a file: those that were whole are whole, in order, without a gap.
#[test]
fn killed_in_the_middle_of_a_file_all_before_it_are_there() {
    let folder = Folder::new("killed");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "spool::tests::puts_until_it_is_killed"])
        .env(KILLED, &folder.0)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a child");
    let parcels = || {
        let entries = fs::read_dir(&folder.0).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(PARCEL)).count()
    };
    while parcels() < 3 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let there = parcels();
    let mut next = folder.open("next", 1 << 40);
    assert_eq!(next.adopt(same).expect("a folder"), there);
    assert_eq!(drain(&mut next, "one"), (1..=there as u64).collect::<Vec<_>>());
    drop(next);
    assert_eq!(folder.names(), [""; 0], "half a file is left behind");
}
