//! Folders that others may rearrange.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

/// Who is nobody else here.
const STRANGER: u32 = 4242;

fn own() -> Process {
    Process::new(std::process::id())
}

/// A folder of a test's own.
fn top(name: &str) -> PathBuf {
    let top = std::env::temp_dir().join(format!("corprof-{name}-{}", std::process::id()));
    fs::create_dir_all(&top).unwrap();
    top
}

/// The stranger, as whom only root can act.
fn stranger() -> Option<FileUser> {
    let is_root = Uid::effective().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can act as another user");
    }
    is_root.then(|| FileUser::numbered(STRANGER))
}

#[test]
fn it_stays_the_same_folder_whatever_is_done_to_its_name() {
    let top = top("staging");
    fs::create_dir_all(top.join("victim")).unwrap();
    let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
    fs::rename(top.join("ours"), top.join("moved")).unwrap();
    symlink(top.join("victim"), top.join("ours")).unwrap();
    fs::write(top.join("source"), "text").unwrap();
    staging.put(&top.join("source"), "file").unwrap();
    fs::create_dir(top.join("moved/folder")).unwrap();
    assert_eq!(fs::read_to_string(top.join("moved/file")).unwrap(), "text");
    assert!(fs::read_dir(top.join("victim")).unwrap().next().is_none());
    assert!(!staging.clear(), "a link is in its place");
    assert!(fs::read_dir(top.join("moved")).unwrap().next().is_none(), "all of it is gone");
    assert!(top.join("victim").is_dir());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn what_is_there_already_is_not_taken() {
    let top = top("staged");
    fs::create_dir_all(top.join("ours")).unwrap();
    assert!(Staging::make(&own(), &top, "ours".to_owned()).is_err());
    fs::remove_dir(top.join("ours")).unwrap();
    let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
    assert!(staging.clear());
    assert!(!top.join("ours").exists());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn only_regular_files_are_read_and_none_through_a_link() {
    let top = top("read");
    fs::write(top.join("victim"), "secret").unwrap();
    let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
    let inside = top.join("ours");
    fs::write(inside.join("file"), "text").unwrap();
    symlink(top.join("victim"), inside.join("link")).unwrap();
    nix::unistd::mkfifo(&inside.join("pipe"), Mode::S_IRWXU).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
    fs::create_dir(inside.join("folder")).unwrap();
    assert_eq!(io::read_to_string(staging.open("file").unwrap()).unwrap(), "text");
    for name in ["link", "pipe", "socket", "folder"] {
        let error = staging.open(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}: {error}");
    }
    // What is in the way of a copy is not written to.
    symlink(top.join("victim"), inside.join("library")).unwrap();
    assert!(staging.put(&inside.join("file"), "library").is_err());
    assert_eq!(fs::read(top.join("victim")).unwrap(), b"secret");
    assert!(staging.clear());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn a_folder_inside_that_holds_something_stays_and_is_told_of() {
    let top = top("inside");
    let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
    fs::create_dir(top.join("ours/folder")).unwrap();
    fs::write(top.join("ours/folder/file"), "text").unwrap();
    assert!(!staging.clear());
    assert!(top.join("ours/folder/file").exists());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn a_mount_is_not_entered() {
    let root = File::open("/").unwrap();
    let open_ways = [
        open_within(&root, "proc", OFlag::O_DIRECTORY),
        open_on_one_mount(&root, "proc", OFlag::O_DIRECTORY),
    ];
    for opened in open_ways {
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(Errno::EXDEV as i32));
    }
    let proc = File::open("/proc").unwrap();
    open_within(&proc, "sys", OFlag::O_DIRECTORY).unwrap();
    open_on_one_mount(&proc, "sys", OFlag::O_DIRECTORY).unwrap();
}

#[test]
fn it_is_the_users_and_nowhere_that_he_may_not_write() {
    let Some(user) = stranger() else { return };
    let top = top("theirs");
    let theirs = top.join("theirs");
    let roots = top.join("roots");
    for folder in [&theirs, &roots] {
        fs::create_dir(folder).unwrap();
    }
    chown(&theirs, Some(STRANGER), Some(STRANGER)).unwrap();
    let make =
        |folder: &Path| Staging::make_as(Some(user.clone()), &own(), folder, "ours".to_owned());
    // Where a link of his leads to a folder of root's.
    symlink(&roots, theirs.join("tmp")).unwrap();
    let error = make(&theirs.join("tmp")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(fs::read_dir(&roots).unwrap().next().is_none());
    let staging = make(&theirs).unwrap();
    assert_eq!(fs::metadata(theirs.join("ours")).unwrap().uid(), STRANGER);
    // A file that is root's alone is not read for him.
    fs::write(theirs.join("ours/secret"), "secret").unwrap();
    fs::set_permissions(theirs.join("ours/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let error = staging.open("secret").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(staging.clear());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn a_folder_of_roots_is_not_taken_for_ours() {
    let Some(user) = stranger() else { return };
    let top = top("roots");
    let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
    let as_stranger = Staging { user: Some(user), ..staging };
    assert!(!as_stranger.is_the_users().unwrap());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn what_a_killed_attach_left_is_found() {
    let top = top("left");
    let process = own();
    let pid = process.pid();
    let old = |attacher: u32, process: u32| format!("{LENT_FOLDER}{attacher}-{process}");
    // No process has a number that high.
    let (gone, other) = (u32::MAX, u32::MAX - 1);
    let (left, held) = (old(gone, pid), old(gone, other));
    // The last two are of who still attaches, and of a process that may have an agent.
    for name in [&left, &held, &old(pid, pid), &old(gone, 1)] {
        fs::create_dir(top.join(name)).unwrap();
    }
    fs::write(top.join(&left).join("App_1_0000.pb.gz"), "").unwrap();
    fs::write(top.join(&left).join("corprof-agent.log"), "").unwrap();
    let holder = File::open(top.join(&held)).unwrap();
    holder.try_lock().unwrap();
    let staging = Staging::make(&process, &top, "ours".to_owned()).unwrap();
    let found = |of| -> Vec<(String, usize)> {
        let left = staging.leftovers(&process, of);
        left.iter().map(|left| (left.name().to_owned(), left.profiles())).collect()
    };
    assert_eq!(found(Of::TheProcess), [(left, 1)]);
    assert_eq!(found(Of::TheGone), []);
    drop(holder);
    assert_eq!(found(Of::TheGone), [(held, 0)]);
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn names_say_whose_folder_it_is() {
    let lives = |pid| [6, 7, 8].contains(&pid);
    for (name, left) in [
        ("corprof-attach-5-6", Some(Of::TheProcess)),
        ("corprof-attach-5-9", Some(Of::TheGone)),
        ("corprof-attach-5-8", None),
        ("corprof-attach-7-6", None),
        ("corprof-attach-5", None),
        ("corprof-attach-x-6", None),
        ("corprof-5-6", None),
    ] {
        for of in [Of::TheProcess, Of::TheGone] {
            assert_eq!(is_left(name, 6, of, lives), left == Some(of), "{name} {of:?}");
        }
    }
}
